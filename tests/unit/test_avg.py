"""AvgShedder: one story per repair, and the plan of Pulsar 5.0; vectors have the rest."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.simulation.leader import Leader
from sinks.wire.record_decoding import decode
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import ClusterView, Decision
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.fold.engine import Engine, EngineSettings, rules_of
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from strategies.placement.avg import AvgPlacementSettings, ParityAvgPlacement50
from strategies.placement.contract import Placement
from strategies.placement.destinations import Destinations
from strategies.shedding.avg.fixed import AvgShedder
from strategies.shedding.avg.parity import parity_50
from strategies.shedding.avg.settings import AvgSettings
from tests.world.brokers import WEIGHTS, Load, broker, bundles, ns, talking, view
from tests.world.placement import brokers, policies, policy, request
from tests.world.sheddings import codes, hits, picked, play
from tests.world.uneven_log import uneven


def ten_ninety(
    owned: Mapping[str, Load], *, rate: float = 0.0, mib: float = 0.0, fresh: bool = True
) -> ClusterView:
    """b1 at 10 %, b2 at 90 % with these bundles: urgent from the first round."""
    return view(
        broker("b1", 10.0, fresh=fresh), broker("b2", 90.0, mib, owned, rate=rate, fresh=fresh)
    )


SHEDDER = AvgShedder(AvgSettings(max_unload=0.5), WEIGHTS)
SPARE = {ns(14): Load(), ns(15): Load()}


def test_a_repeated_report_is_no_hit() -> None:
    owned = talking(3000, 2000)
    new, old = ten_ninety(owned, rate=10_000), ten_ninety(owned, rate=10_000, fresh=False)
    rounds = play(SHEDDER, new, old, old, new)
    assert [bool(round_.decisions) for round_ in rounds] == [False, False, False, True]
    assert hits(rounds[2]) == {"b1:1": (1, 1), "b2:1": (1, 1)}


def test_only_the_broker_with_a_new_sample_is_hit() -> None:
    seen = view(
        broker("b1", 10.0, fresh=False), broker("b2", 90.0, rate=10_000, owned=talking(3000, 2000))
    )
    rounds = play(SHEDDER, seen, seen)
    assert hits(rounds[0]) == {"b2:1": (1, 1)}
    assert rounds[1].decisions


def test_old_figures_do_not_clear_hits_either() -> None:
    memory = Memory({"b1:1": BrokerMemory(hit_low=5), "b2:1": BrokerMemory(hit_low=5)})
    calm = view(broker("b1", 50.0, fresh=False), broker("b2", 55.0, fresh=False))
    assert hits(play(SHEDDER, calm, memory=memory)[0]) == {"b1:1": (None, 5), "b2:1": (None, 5)}
    assert hits(play(SHEDDER, view(broker("b1", 50.0), broker("b2", 55.0)), memory=memory)[0]) == {}


def test_the_eighth_hit_of_a_smaller_difference_says_so() -> None:
    memory = Memory({"b1:1": BrokerMemory(hit_low=7), "b2:1": BrokerMemory(hit_low=7)})
    seen = view(broker("b1", 20.0), broker("b2", 36.0, rate=10_000, owned=talking(6000, 2000)))
    assert play(SHEDDER, seen, memory=memory)[0].decisions[0].code == "apart-for-long"


def test_the_only_broker_left_keeps_its_hits() -> None:
    memory = Memory({"b2:1": BrokerMemory(hit_low=5)})
    seen = view(broker("b1", 10.0, settling=True), broker("b2", 90.0))
    assert hits(play(SHEDDER, seen, memory=memory)[0]) == {"b2:1": (None, 5)}


def two_pairs() -> ClusterView:
    """Two pairs that are equally far apart and whose bundles have equal averages."""
    return view(
        broker("low-x", 1.0),
        broker("low-y", 2.0),
        broker("high-x", 91.0, rate=10_000, owned={**talking(3000), **SPARE}),
        broker("high-y", 92.0, rate=10_000, owned=talking(3000, 10, first=1)),
    )


def test_bundles_of_equal_averages_go_where_their_own_pair_sends_them() -> None:
    last = play(SHEDDER, two_pairs(), two_pairs())[1]
    wanted = {ns(0): "low-y:1", ns(1): "low-x:1", ns(2): "low-x:1"}
    assert {decision.bundle: decision.destination for decision in last.decisions} == wanted
    assert last.memory.cluster.planned == wanted


def test_the_plan_is_good_for_one_round() -> None:
    assert play(SHEDDER, *[two_pairs()] * 3)[2].memory.cluster.planned == {}
    planned = Memory(cluster=ClusterMemory(planned={"x": "y"}))
    assert play(SHEDDER, view(), memory=planned)[0].memory.cluster.planned == {}


def test_bundles_that_are_resting_idle_or_too_big_stay_with_a_reason() -> None:
    owned = {**talking(9000, 3000, 500), **SPARE}
    seen = replace(ten_ninety(owned, rate=10_000), cooling=frozenset({ns(1)}))
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(2)]}
    too_big = dict.fromkeys((ns(0), ns(14), ns(15)), "does-not-fit")
    assert codes(last) == too_big | {ns(1): "cooling-down"}


def test_equal_scores_pair_by_name_and_many_waiting_pairs_share_one_sentence() -> None:
    seen = [broker(f"b{number:03}", 80.0 if number % 2 else 20.0) for number in range(200)]
    one, other = play(SHEDDER, view(*seen))[0], play(SHEDDER, view(*seen[::-1]))[0]
    assert one == other
    (skip,) = one.skips
    assert (skip.code, len(skip.names)) == ("waiting-for-hits", 200)
    assert skip.text.startswith(
        "200 brokers for the same reason, such as: b199:1 at 80.0 % is 60.0 points above b000:1"
    )


SETTINGS = AvgSettings(max_unload=0.5, hit_count_high=1)
NEW = parity_50(SETTINGS, WEIGHTS)
PLACEMENT = ParityAvgPlacement50(AvgPlacementSettings())
X = "t/ns/0x0_0x1"


def two_pairs_with_equal_bundles() -> ClusterView:
    """b4 gives to b1, b3 gives to b2; bundles 0 and 10 have the same averages."""
    return view(
        broker("b1", 5.0),
        broker("b2", 10.0),
        broker("b3", 80.0, rate=8000, owned=talking(3000, first=10)),
        broker("b4", 90.0, rate=8000, owned=talking(3000)),
    )


def looked_up(usages: Mapping[str, float | None]) -> Placement:
    """With Pulsar 5.0, of a bundle that b1 gives to b2. A usage may be unknown."""
    known = {name: percent for name, percent in usages.items() if percent is not None}
    asked = request(*brokers(**known), bundle=X)
    asked = replace(asked, candidates={**dict.fromkeys(usages), **asked.candidates})
    return PLACEMENT.place(asked, Memory(plan={X: ("b1", "b2")}))


def test_the_plan_names_source_and_destination_and_is_no_part_of_the_state() -> None:
    (round_,) = play(NEW, two_pairs_with_equal_bundles())
    assert round_.memory.plan == {ns(0): ("b4:1", "b1:1"), ns(10): ("b3:1", "b2:1")}
    assert round_.memory.cluster.planned == {}


@pytest.mark.parametrize(
    ("usages", "best", "code", "text"),
    [
        (
            {"b1": 1, "b3": 90, "b4": 90},
            ("b3", "b4"),
            "drawn",
            "was drawn from 2 brokers, because b2 may not take it",
        ),
        ({"b1": 1}, (), "only-source", "cannot be placed: b2 may not take it, and b1 gives it up"),
        (
            {"b1": 1, "b2": 86, "b3": 85, "b4": 86},
            ("b3",),
            "drawn",
            "was drawn from 1 broker, because b2 is at 86.0 %",
        ),
        # A broker without figures is neither overloaded nor healthy.
        ({"b2": None, "b3": 1}, ("b2",), "planned", "was planned for it"),
        ({"b2": 86, "b3": None}, ("b2",), "planned", "was planned for it"),
    ],
    ids=("missing", "the source alone", "overloaded", "without figures", "nobody is healthy"),
)
def test_who_replaces_the_planned_broker(
    usages: dict[str, float | None], best: tuple[str, ...], code: str, text: str
) -> None:
    answer = looked_up(usages)
    assert (answer.best, answer.code, answer.text) == (best, code, text)
    assert (answer.chosen is None) == (best == ())


def destinations(release: PulsarRelease) -> set[str | None]:
    """What the rules of a release name for the picks of one round."""
    settings = EngineSettings("avg", "parity", SETTINGS, pulsar_version=release, version="test")
    seen = two_pairs_with_equal_bundles()
    shedding = settings.shedder().shed(seen, Memory())
    rules = rules_of(settings).destinations
    named = Destinations(seen, 1, rules, policies=PoliciesView(), memory=shedding.memory)
    answers = [named.name(decision) for decision in shedding.decisions]
    return {one.destination for one in answers if isinstance(one, Decision)}


def test_rounds_of_the_release_send_bundles_where_it_sends_them() -> None:
    assert destinations("4.2") == {"b2:1"}
    assert destinations("5.0") == {"b1:1", "b2:1"}


@pytest.mark.parametrize(
    ("primary", "with_42", "with_50"),
    [
        (["b1"], {"b1:8080", "b1:8081"}, {"b1:8080", "b1:8081"}),
        (["b1:8080"], set(), {"b1:8080"}),
        (["b.:808[01]"], set(), {"b1:8080", "b1:8081", "b2:8080"}),
    ],
)
def test_isolation_policies_of_50_name_brokers_by_id_too(
    primary: list[str], with_42: set[str], with_50: set[str]
) -> None:
    there = {"b1:8080", "b1:8081", "b2:8080"}
    releases: tuple[tuple[PulsarRelease, set[str]], ...] = (("4.2", with_42), ("5.0", with_50))
    for release, primaries in releases:
        by_id = rules_of(EngineSettings(pulsar_version=release)).isolation_by_id
        seen = replace(policies(policy("gold", ["t/gold"], primary)), by_id=by_id)
        assert there - isolated(seen, "t/gold", [*there]).keys() == primaries
        assert there - isolated(seen, "t/other", [*there]).keys() == there - primaries


def placed_by_leader(release: PulsarRelease, placement: str) -> set[str | None]:
    """Where the leader of a modelled cluster places 40 bundles without an owner."""
    store, rules = InMemoryStore(), EngineSettings("avg", "parity")
    for line in uneven(rounds=2):
        Engine(rules).fold(decode(line, b""), store)
    leader = Leader(replace(rules, placement=placement, pulsar_version=release), "c", store)
    return set(leader.places([(ns(k), "hot:1") for k in range(40)], ["hot:1", "idle:1"]))


@pytest.mark.parametrize("placement", ["none", "auto"])
def test_pulsars_own_placement_of_50_draws_each_bundle(placement: str) -> None:
    assert placed_by_leader("5.0", placement) == {"hot:1", "idle:1"}


def test_the_placement_of_42_sends_new_bundles_to_one_broker() -> None:
    assert len(placed_by_leader("4.2", "auto")) == 1
    assert placed_by_leader("4.2", "none") == {"idle:1"}


def test_throughput_counts_where_message_rates_are_small() -> None:
    seen = ten_ninety(bundles(30, 6), rate=1000, mib=80)
    assert picked(play(SHEDDER, seen, seen)[1]) == {"b2:1": [ns(0), ns(1)]}


@pytest.mark.parametrize("high", [36.0, 35.0])
def test_a_smaller_difference_takes_eight_samples(high: float) -> None:
    seen = view(broker("b1", 20.0), broker("b2", high, rate=10_000, owned=talking(6000, 2000)))
    assert [picked(round_) for round_ in play(SHEDDER, *[seen] * 9)] == [{}] * 7 + [
        {"b2:1": [ns(1)]},
        {},
    ]
