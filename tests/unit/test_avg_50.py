"""AvgShedder as Pulsar 5.0 runs it: a plan by bundle name that lives for one round, and look-ups
that leave it where the planned broker is full or missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.simulation.leader import Leader
from sinks.wire.codec import decode
from strategies.cluster.memory import ClusterMemory, Memory
from strategies.cluster.model import Decision, Skip
from strategies.cluster.store import InMemoryStore
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.fold.engine import Engine, EngineSettings, rules_of
from strategies.java.release_defaults import PulsarRelease
from strategies.placement.avg import AvgPlacementSettings, ParityAvgPlacement50
from strategies.placement.contract import Candidate, Placement
from strategies.placement.destinations import Destinations
from strategies.shedding.avg.parity import ParityAvgShedder, parity_50
from strategies.shedding.avg.settings import AvgSettings
from tests.world.brokers import WEIGHTS, broker, hits, ns, picked, play, talking, view
from tests.world.placement import brokers, candidate, policies, policy, request
from tests.world.uneven_log import uneven

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


def test_equal_bundles_keep_their_own_destinations() -> None:
    seen = two_pairs_with_equal_bundles()
    (old,), (new,) = play(OLD, seen), play(NEW, seen)  # type: ignore[arg-type]

    assert picked(old) == picked(new) == {"b4:1": [ns(0)], "b3:1": [ns(10)]}
    assert hits(old) == hits(new)
    assert {one.destination for one in old.decisions} == {"b2:1"}
    assert {one.bundle: one.destination for one in new.decisions} == {ns(0): "b1:1", ns(10): "b2:1"}


def test_the_plan_names_source_and_destination_and_is_no_part_of_the_state() -> None:
    (round_,) = play(NEW, two_pairs_with_equal_bundles())  # type: ignore[arg-type]

    assert round_.memory.plan == {ns(0): ("b4:1", "b1:1"), ns(10): ("b3:1", "b2:1")}
    assert round_.memory.cluster.planned == {}


def test_a_plan_ends_with_the_next_round() -> None:
    seen = two_pairs_with_equal_bundles()
    quiet = view(broker("b1", 5.0), broker("b2", 10.0))

    rounds = play(NEW, seen, quiet)  # type: ignore[arg-type]

    assert rounds[1].memory.plan == {}


def test_a_bundle_of_two_brokers_has_one_destination() -> None:
    seen = view(
        broker("b1", 5.0),
        broker("b2", 10.0),
        broker("b3", 80.0, rate=8000, owned=talking(3000)),
        broker("b4", 90.0, rate=8000, owned=talking(3000)),
    )
    (round_,) = play(NEW, seen)

    assert {one.destination for one in round_.decisions} == {"b2:1"}
    assert round_.memory.plan == {ns(0): ("b3:1", "b2:1")}
    assert "or rather to b2:1, where the bundle as another broker's is sent" in next(
        one.text for one in round_.decisions if one.source == "b4:1"
    )


def test_a_planned_broker_takes_the_bundle_whatever_the_others_are() -> None:
    answer = looked_up(*brokers(b1=90, b2=85, b3=1))

    assert (answer.best, answer.code) == (("b2",), "planned")


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


def test_an_overloaded_broker_stays_where_none_is_healthy() -> None:
    assert looked_up(*brokers(b1=1, b2=86, b3=86)).best == ("b2",)


def test_a_broker_without_figures_is_neither_overloaded_nor_healthy() -> None:
    assert looked_up(*brokers(b3=1), unknown={"b2": None}).best == ("b2",)
    assert looked_up(*brokers(b2=86), unknown={"b3": None}).best == ("b2",)


@pytest.mark.parametrize(("percent", "overloaded"), [(14, True), (28, True), (29, False)])
def test_noise_of_float_decides_at_the_threshold(percent: float, overloaded: bool) -> None:
    rule = ParityAvgPlacement50(AvgPlacementSettings(overloaded_percent=percent))
    asked = request(candidate("b2", percent), candidate("b3", 1), bundle=X)

    answer = rule.place(asked, Memory(plan={X: ("b1", "b2")}))

    assert answer.best == (("b3",) if overloaded else ("b2",))


def test_another_bundle_is_drawn_and_the_draw_is_forgotten() -> None:
    before = Memory(plan={"t/ns/other": ("b1", "b2")})

    answer = PLACEMENT.place(request(*brokers(b1=99, b2=1), bundle=X), before)

    assert answer.best == ("b1", "b2")
    assert answer.memory is before


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


def test_the_plan_by_value_of_another_release_is_not_read() -> None:
    memory = Memory(cluster=ClusterMemory(planned={X: "b2"}))

    assert PLACEMENT.place(request(*brokers(b1=1, b2=1), bundle=X), memory).best == ("b1", "b2")


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
