"""AvgShedder: one story per repair, and the plan by bundle name of Pulsar 5.0; the vectors have the
rest.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.simulation.leader import Leader
from sinks.wire.codec import decode
from strategies.cluster.memory import BrokerMemory, ClusterMemory, Memory
from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.cluster.store import InMemoryStore
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.fold.engine import Engine, EngineSettings, rules_of
from strategies.java.pulsar_releases import PulsarRelease
from strategies.placement.avg import AvgPlacementSettings, ParityAvgPlacement50
from strategies.placement.contract import Candidate, Placement
from strategies.placement.destinations import Destinations
from strategies.shedding.avg.fixed import AvgShedder
from strategies.shedding.avg.parity import ParityAvgShedder, parity_50
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
    rounds = play(SHEDDER, two_pairs(), two_pairs(), two_pairs())
    assert rounds[2].memory.cluster.planned == {}
    assert (
        play(SHEDDER, view(), memory=Memory(cluster=ClusterMemory(planned={"x": "y"})))[
            0
        ].memory.cluster.planned
        == {}
    )


def test_bundles_that_are_resting_idle_or_too_big_stay_with_a_reason() -> None:
    owned = {**talking(9000, 3000, 500), **SPARE}
    seen = replace(ten_ninety(owned, rate=10_000), cooling=frozenset({ns(1)}))
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(2)]}
    assert codes(last) == {
        ns(0): "does-not-fit",
        ns(1): "cooling-down",
        ns(14): "does-not-fit",
        ns(15): "does-not-fit",
    }


def test_equal_scores_pair_by_name_and_many_waiting_pairs_share_one_sentence() -> None:
    seen = [broker(f"b{number:03}", 80.0 if number % 2 else 20.0) for number in range(200)]
    one, other = play(SHEDDER, view(*seen))[0], play(SHEDDER, view(*seen[::-1]))[0]
    assert one == other
    (skip,) = one.skips
    assert skip.code == "waiting-for-hits"
    assert len(skip.names) == 200
    assert skip.text.startswith(
        "200 brokers for the same reason, such as: b199:1 at 80.0 % is 60.0 points above b000:1"
    )


SETTINGS = AvgSettings(max_unload=0.5, hit_count_high=1)


OLD, NEW = ParityAvgShedder(SETTINGS, WEIGHTS), parity_50(SETTINGS, WEIGHTS)


PLACEMENT = ParityAvgPlacement50(AvgPlacementSettings())


X = "t/ns/0x0_0x1"


def two_pairs_with_equal_bundles() -> object:
    """b4 gives to b1, b3 gives to b2; bundles 0 and 10 have the same averages."""
    return view(
        broker("b1", 5.0),
        broker("b2", 10.0),
        broker("b3", 80.0, rate=8000, owned=talking(3000, first=10)),
        broker("b4", 90.0, rate=8000, owned=talking(3000)),
    )


def looked_up(
    *candidates: Candidate,
    source: str = "b1",
    planned: str = "b2",
    unknown: Mapping[str, None] | None = None,
) -> Placement:
    asked = request(*candidates, bundle=X)
    asked = replace(asked, candidates={**asked.candidates, **(unknown or {})})
    return PLACEMENT.place(asked, Memory(plan={X: (source, planned)}))


def test_the_plan_names_source_and_destination_and_is_no_part_of_the_state() -> None:
    (round_,) = play(NEW, two_pairs_with_equal_bundles())  # type: ignore[arg-type]

    assert round_.memory.plan == {ns(0): ("b4:1", "b1:1"), ns(10): ("b3:1", "b2:1")}
    assert round_.memory.cluster.planned == {}


def test_a_missing_broker_is_replaced_by_any_but_the_source() -> None:
    answer = looked_up(*brokers(b1=1, b3=90, b4=90))

    assert (answer.best, answer.code) == (("b3", "b4"), "drawn")
    assert answer.text == "was drawn from 2 brokers, because b2 may not take it"


def test_the_source_alone_takes_nothing_back() -> None:
    answer = looked_up(*brokers(b1=1))

    assert (answer.best, answer.chosen, answer.code) == ((), None, "only-source")
    assert answer.text == "cannot be placed: b2 may not take it, and b1 gives it up"


def test_an_overloaded_broker_is_replaced_by_healthy_ones() -> None:
    answer = looked_up(*brokers(b1=1, b2=86, b3=85, b4=86))

    assert answer.best == ("b3",)
    assert "because b2 is at 86.0 %" in answer.text


def test_a_broker_without_figures_is_neither_overloaded_nor_healthy() -> None:
    assert looked_up(*brokers(b3=1), unknown={"b2": None}).best == ("b2",)
    assert looked_up(*brokers(b2=86), unknown={"b3": None}).best == ("b2",)


def destinations(release: PulsarRelease) -> list[Decision | Skip]:
    """What the rules of a release name for the picks of one round."""
    settings = EngineSettings("avg", "parity", SETTINGS, pulsar_version=release, version="test")
    seen = two_pairs_with_equal_bundles()
    shedding = settings.shedder().shed(seen, Memory())  # type: ignore[arg-type]
    named = Destinations(
        seen,  # type: ignore[arg-type]
        1,
        rules_of(settings).destinations,
        policies=PoliciesView(),
        memory=shedding.memory,
    )
    return [named.name(decision) for decision in shedding.decisions]


def test_rounds_of_the_release_send_bundles_where_it_sends_them() -> None:
    assert {one.destination for one in destinations("4.2") if isinstance(one, Decision)} == {"b2:1"}
    assert {one.destination for one in destinations("5.0") if isinstance(one, Decision)} == {
        "b1:1",
        "b2:1",
    }


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
    there = ["b1:8080", "b1:8081", "b2:8080"]
    known = policies(policy("gold", ["t/gold"], primary))

    for by_id, primaries in ((False, with_42), (True, with_50)):
        seen = replace(known, by_id=by_id)
        assert set(there) - isolated(seen, "t/gold", there).keys() == primaries
        assert set(there) - isolated(seen, "t/other", there).keys() == {*there} - primaries


def test_brokers_are_named_by_id_from_50_on() -> None:
    for release, by_id in (("4.2", False), ("5.0", True)):
        rules = rules_of(EngineSettings(pulsar_version=release))  # type: ignore[arg-type]
        assert rules.isolation_by_id is by_id


def placed_by_leader(release: PulsarRelease, placement: str) -> set[str | None]:
    """Where the leader of a modelled cluster places 40 bundles without an owner."""
    store = InMemoryStore()
    engine = Engine(EngineSettings("avg", "parity"))
    for line in uneven(rounds=2):
        engine.fold(decode(line, b""), store)
    leader = Leader(
        EngineSettings("avg", "parity", placement=placement, pulsar_version=release), "c", store
    )
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
