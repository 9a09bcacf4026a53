"""What a plan of SteadyShedder moves: few bundles with little traffic, none twice."""

from dataclasses import replace

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.noise import Stream
from strategies.cluster.model import BrokerLoad, Resource
from strategies.cluster.strategy_memory import ClusterMemory, Memory
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.cheapest_plan import best_plan
from strategies.shedding.steady.greedy_move_search import searched
from strategies.shedding.steady.learned_load_cost import (
    HIGHEST_BASE,
    LASTING,
    NOISE,
    POWERS,
    drawn,
    learned,
)
from strategies.shedding.steady.memory_format import Episode, LoadHistory, LoadSample, RecentMove
from strategies.shedding.steady.optimum_certificate import certified
from strategies.shedding.steady.planned_cluster import LoadedBrokers, PlannedCluster
from strategies.shedding.steady.settings import PROFILES, SteadySettings, crowd_points
from strategies.shedding.steady.steady_round import SteadyShedder
from strategies.shedding.steady.whole_bundle_bounds import _some
from tests.world.brokers import WEIGHTS, Load, broker, bundles, ns, view
from tests.world.steady import LoadLevel, history_of, loaded, named, played

PROFILE = PROFILES["default"]


def rows(*sizes: list[float]) -> list[dict[str, float]]:
    """Bundles with names of their own for each broker."""
    return [named(*some, row=row) for row, some in enumerate(sizes)]


@pytest.mark.parametrize("cheapest", range(6))
def test_of_equal_bundles_the_one_with_the_least_traffic_moves(cheapest: int) -> None:
    held = [named(*[10.0] * 6), {"t/ns/z": 30.0}]
    traffic = [1e6 if at == cheapest else 5e6 for at in range(6)]

    (move,) = best_plan(loaded(held, 0.0, traffic=traffic), replace(PROFILE, band=10.0)).moves

    assert move.bundle == [*held[0]][cheapest]


@pytest.mark.heavy
@pytest.mark.parametrize(("stuck", "full", "empty"), [(1, 40, 40), (4, 10, 10)])
def test_a_broker_whose_only_bundle_is_too_large_does_not_keep_others_from_being_relieved(
    stuck: int, full: int, empty: int
) -> None:
    held = rows(*[[52.0]] * stuck, *[[5.0] * 9] * full, *[list[float]()] * empty)

    plan = best_plan(loaded(held, 8.0), replace(PROFILE, band=8.0))

    assert plan.after[stuck:].max() <= 38.0
    assert plan.after.min() >= 28.0


def test_a_broker_that_joins_is_filled_to_what_follow_ups_leave_alone() -> None:
    full = [10.0, 9, 8, 7, 6, 5, 4, 3, 2, 2, 1, 1]

    plan = best_plan(loaded(rows(full, full, full, full, []), 8.0), PROFILE)

    assert plan.spread < PROFILE.follow_up
    assert {one.destination for one in plan.moves} == {4}


def test_of_120_brokers_only_the_hot_one_gives_and_little_more_than_what_must_move() -> None:
    """The others are a crowd 14 points wide. Traffic is not what load is."""
    stream = Stream(1, 120)
    held = rows(*(((0.2 + stream.uniform(100)) / 1.6).tolist() for _ in range(120)))
    hot = {name: 1.3 * size for name, size in held[0].items()}
    traffic = [size * two for size, two in zip(hot.values(), stream.uniform(100), strict=True)]
    crowd = (38.0 + 14.0 * stream.uniform(119)).tolist()
    brokers = loaded([hot, *held[1:]], [90.0, *crowd], traffic=traffic)

    plan = best_plan(brokers, PROFILE.among(120))

    proven = certified(brokers, plan)
    assert {one.source for one in plan.moves} == {0}
    assert plan.after[0] < 58.0
    assert proven.moved <= 1.3 * (proven.least_to_move or 0.0)


def test_one_bundle_moves_in_place_of_two_of_its_size() -> None:
    full = [14.6, 14.6, 11.0, 11.0, 7.3, 7.3, 3.7, 3.7]

    plan = best_plan(loaded(rows(full, [3.7] * 8, [1.2] * 8, [0.6] * 8), 20.0), PROFILE)

    assert sorted(one.size for one in plan.moves) == [3.7, 11.0, 14.6, 14.6]
    assert plan.spread < PROFILE.follow_up


def test_a_follow_up_leaves_what_small_moves_would_bring() -> None:
    """Nothing calls for them: an episode has one follow-up."""
    brokers = loaded(rows([6.3], [0.7] * 8, [], []), [54.9, 53.3, 46.6, 41.6])

    first, follow_up = (best_plan(brokers, PROFILE, follows=follows) for follows in (False, True))

    assert [one.size for one in first.moves] == [6.3, 0.7, 0.7]
    assert [one.size for one in follow_up.moves] == [6.3]
    assert follow_up.spread < PROFILE.follow_up


@pytest.mark.heavy
def test_moves_of_a_follow_up_are_worth_their_pauses() -> None:
    """Figures of real brokers: six moves together would bring 4 points."""
    held = rows([0.3] * 8, [1.5, 1.0, 0.5], [0.5] * 4, [0.5, 0.5, 0.4, 0.4, 0.3, 0.3, 0.3])
    brokers = loaded(held, [32.0, 25.5, 30.0, 35.0])

    any_, worth = (best_plan(brokers, PROFILE, follows=True, least=least) for least in (0.0, 1.2))

    assert len(any_.moves) > 4
    assert worth.moves == ()


def third_round_after(moves: int) -> Shedding:
    """After a plan of this number of moves that was to cut the spread by 40 points, three rounds
    with a gap of 10 points between two brokers with bundles of about one point.
    """
    last = RecentMove("t/ns/moved", "b1:1", "b2:1", 0, 1e6, 1e3, 0.01, 0.01, counted=True)
    episode = Episode(began_at_ms=0, last_at_ms=0, spread_before=0.5, spread_predicted=0.1)
    memory = Memory({}, ClusterMemory(moves=(last,) * moves, episode=episode))
    rule, shed = SteadyShedder(SteadySettings(), WEIGHTS), Shedding((), (), memory)
    full = broker("b1", 40.0, 40.0, bundles(*[1.0] * 40))
    empty = broker("b2", 30.0, 30.0, bundles(*[1.0] * 30, first=50))
    for now_ms in (60_000, 120_000, 180_000):
        seen = (replace(one, reported_at_ms=now_ms) for one in (full, empty))
        shed = rule.shed(replace(view(*seen), now_ms=now_ms), shed.memory)
    return shed


def test_what_a_follow_up_asks_of_its_moves_grows_with_what_the_moves_before_brought() -> None:
    many, few = third_round_after(40), third_round_after(2)

    assert {one.code for one in many.decisions} == {"follow-up"}
    assert few.decisions == ()
    assert "no-better-plan" in {one.code for one in few.skips}


class TestReportedTwice:
    """A bundle that two brokers report moves once."""

    def moved(self, brokers: LoadedBrokers) -> list[tuple[str, int, int]]:
        return [(one.bundle, one.source, one.destination) for one in searched(brokers, 1.0).moves]

    def test_two_full_brokers_give_it_once(self) -> None:
        held = [{"t/ns/a": 10.0}, {"t/ns/a": 10.0}, {}, {}]
        assert self.moved(loaded(held, [60.0, 60.0, 40.0, 40.0])) == [("t/ns/a", 1, 2)]

    def test_one_broker_may_give_it_where_the_other_must_not(self) -> None:
        held = [{"t/ns/a": 10.0}, {"t/ns/a": 10.0}, {}]
        brokers = loaded(held, [60.0, 60.0, 40.0], rule=lambda _, source, __: source == 0)
        assert self.moved(brokers) == [("t/ns/a", 0, 2)]

    def test_it_does_not_change_places_with_itself(self) -> None:
        """The fuller broker reports it with more traffic, which its newer report shows."""
        assert self.moved(loaded([{"t/ns/a": 11.0}, {"t/ns/a": 4.0}], [51.0, 39.0])) == []

    def test_who_may_take_it_depends_on_the_broker_that_gives_it(self) -> None:
        """The first broker serves the fewest of an anti-affinity group, for example."""

        def takers(bundle: str, source: str) -> list[str]:
            return ["b:1"] if source == "a:1" else ["c:1"]

        shared = bundles(10.0)
        loads = [broker(name, 50.0, 10.0, shared if name != "c" else {}) for name in "abc"]
        history = history_of([LoadSample(1, 0.5, 1e7, 0.0)], bundles=1)
        cost = learned({one.broker: history for one in loads}, {})
        known = [(one, history.samples[0]) for one in loads]
        cluster = PlannedCluster(replace(view(*loads), takers=takers), known, cost, frozenset())
        assert [cluster.takers(ns(0), row).tolist() for row in (0, 1, 0)] == [
            [False, True, False],
            [False, False, True],
            [False, True, False],
        ]


class Asked(str):
    """The name of a bundle that counts how often something is looked up about it."""

    times = 0

    def __hash__(self) -> int:
        self.times += 1
        return super().__hash__()


def questions(refused: str, count: int) -> list[int]:
    """How often a plan asks about each refused bundle. The fuller broker has bundles of 11 points,
    the emptier one of 5 points, this number each: to swap two of them would help.
    """
    names = {name: [Asked(f"t/ns/{name}{at}") for at in range(count)] for name in ("full", "empty")}
    sizes = {"full": 11.0, "empty": 5.0}
    held: list[dict[str, float]] = [dict.fromkeys(names[one], sizes[one]) for one in sizes]
    brokers = loaded(held, [156.0, 144.0], rule=lambda bundle, *_: refused not in bundle)
    before = [one.times for one in names[refused]]
    assert searched(brokers, 1.0).moves == ()
    return [one.times - earlier for one, earlier in zip(names[refused], before, strict=True)]


@pytest.mark.parametrize("refused", ["full", "empty"])
def test_a_bundle_that_must_not_move_is_refused_once_for_all_its_swaps(refused: str) -> None:
    assert max(questions(refused, 10)) == max(questions(refused, 5))


class TestUsagesOfAPlan:
    """What brokers show, drawn to what their traffic explains."""

    @pytest.mark.parametrize("apart", [0.1, 1.0, NOISE])
    def test_small_differences_are_noise_as_far_as_the_least_part_allows(
        self, apart: float
    ) -> None:
        explained = np.array([40.0, 50.0, 60.0, 70.0])
        shown = explained + apart * np.array([1.0, -1.0, 1.0, -1.0])
        expected = explained + LASTING * (shown - explained)
        assert drawn(shown, explained) == pytest.approx(expected)

    def test_large_differences_last_and_what_traffic_explains_fully_stays(self) -> None:
        explained = np.array([40.0, 50.0, 60.0, 70.0])
        shown = explained + np.array([20.0, -20.0, 15.0, 0.0])
        usages = drawn(shown, explained)
        assert usages == pytest.approx(shown, abs=0.3)
        assert (abs(usages - explained) <= abs(shown - explained)).all()
        assert drawn(shown, shown) == pytest.approx(shown)


def levels(**usage_and_load: tuple[float, float]) -> dict[str, LoadHistory]:
    """Broker → a level of this usage at this many times 10 MB/s."""
    return {
        name: history_of(levels=(LoadLevel(1e7 * load, 1e4 * load, usage, 5.0, 0.0),))
        for name, (usage, load) in usage_and_load.items()
    }


class TestLearnedPowers:
    @pytest.mark.parametrize(("usage", "power"), [(0.0, POWERS[1]), (0.25, 2.0)])
    def test_a_stronger_broker_has_its_power_but_is_no_giant(
        self, usage: float, power: float
    ) -> None:
        cost = learned(levels(b1=(0.5, 10), b2=(0.5, 10), b3=(usage, 10)), {})
        assert cost.powers == {"b3": pytest.approx(power)}

    def test_an_idle_broker_shows_what_a_broker_uses_without_traffic(self) -> None:
        some = {f"b{load}": (0.25 + 0.08 * load, load) for load in (0.5, 1, 3, 9)}
        assert learned(levels(**some), {}).base == pytest.approx(0.25, abs=0.05)

    def test_neither_a_busy_process_beside_it_nor_equally_busy_brokers_do(self) -> None:
        some = {f"b{load}": (0.05 + 0.08 * load, float(load)) for load in (1, 3, 5)}
        assert learned(levels(**some, hot=(0.6, 0.1)), {}).base <= HIGHEST_BASE
        busy = {f"b{load}": (0.5 + 0.02 * load, float(load)) for load in (1, 2, 3)}
        assert learned(levels(**busy), {}).base == HIGHEST_BASE

    def test_a_trace_of_traffic_shows_nothing_of_what_traffic_costs(self) -> None:
        trace = history_of(levels=(LoadLevel(5e-324, 5e-324, 0.5, 5.0, 0.0),))
        cost = learned({"b1": trace, "b2": trace}, {})
        assert cost.of(1e8, 1e5) == 0.0
        assert cost.base > 0.0


def test_the_last_bits_of_logarithms_and_powers_which_depend_on_the_processor_leave_no_trace() -> (
    None
):
    limits = [crowd_points(brokers) for brokers in range(1, 2000)]
    assert limits == [round(limit, 9) for limit in limits]
    assert limits[:8] == [0.0] * 8
    assert limits[15] == 1.386294361
    # Of 64 steps from 1 to 343 one is 49, or a last bit below it on some processors.
    chosen = _some(344, 64).tolist()
    assert (49 in chosen, 48 in chosen, chosen[-1]) == (True, False, 343)


def test_a_hot_bundle_leaves_the_small_machine_at_the_first_plan() -> None:
    small, large = broker("small", 66.0, 80.0, bundles(80.0)), [broker(one, 0.5) for one in "abc"]
    large = [replace(one, figures=replace(one.figures, cpu=Resource(2.0, 400.0))) for one in large]
    planned = played([small, *large], [small, *large])[1]

    assert [one.bundle for one in planned.decisions] == [ns(0)]
    certificate = planned.certify([ns(0)])
    assert certificate is not None
    assert (certificate.best_spread or 1.0) <= 0.17


def test_bundles_with_small_messages_do_not_crowd_on_the_broker_of_large_ones() -> None:
    """Only messages cost anything: 8 kB ones beside 1 kB ones (Pulsar #21016)."""
    after, costs, brokers = dict[str, float](), dict[str, float](), list[BrokerLoad]()
    for at, (count, rate) in enumerate(((8, 1e3), (8, 8e3), (8, 8e3), (8, 8e3), (2, 8e3))):
        owned = dict.fromkeys(bundles(*[0.0] * count, first=16 * at), Load(10.0, rate))
        usage = 4 + 1.1e-3 * rate * count
        brokers.append(broker(f"b{at}", usage, 10.0 * count, owned, rate=rate * count))
        after[f"b{at}:1"] = usage
        costs |= dict.fromkeys(owned, 1.1e-3 * rate)

    for move in played(brokers, brokers)[1].decisions:
        after[move.source] -= costs[move.bundle]
        after[move.destination or ""] += costs[move.bundle]

    assert max(after.values()) < 60
