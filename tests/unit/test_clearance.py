"""Which picked bundles really leave, and what is remembered of a broker that gave nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from strategies.cluster.budget import Budget
from strategies.cluster.cluster_state import Gained
from strategies.cluster.model import Decision
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.filters.filter_order_and_settings import Filters, FilterSettings
from strategies.filters.policies import BrokerFacts, PoliciesView
from strategies.java.pulsar_versions_and_defaults import MODE_RULES
from strategies.placement.contract import DestinationRules
from strategies.placement.destinations import Destinations
from strategies.placement.registry import placer
from strategies.round.clearance import Leaving, LeavingRules, decide
from strategies.settings import DestinationSettings, LimitSettings, Mode
from strategies.shedding.contract import Shedding
from strategies.states_and_advice_of_codes import Refusal
from tests.world.brokers import WEIGHTS, broker, bundles, ns, view
from tests.world.placement import policies

ANYWHERE = FilterSettings(load_manager="modular", distribute_evenly=False)
EXTENSIBLE = FilterSettings(load_manager="extensible", distribute_evenly=False)
#: Even distribution allows b2 one bundle more than b1 would have left.
EVEN = FilterSettings(load_manager="modular")
CLOSED = Refusal("outside-window", "would be moved, but not now")
#: What was remembered before the round, in which AvgShedder counted b1 and b2 anew because they
#: were due.
DUE = Memory(
    {name: BrokerMemory(hit_high=2, hit_low=5) for name in ("b1:1", "b2:1")}, ClusterMemory(hits=4)
)
ACTED = Memory({name: BrokerMemory(hit_high=0, hit_low=0) for name in ("b1:1", "b2:1")})
#: Hits of both brokers then.
STILL_DUE, ANEW = (dict.fromkeys(("b1:1", "b2:1"), hits) for hits in ((2, 5), (0, 0)))


def leave(
    k: int, to: str | None = "b2:1", exchange: str | None = None, source: str = "b1:1"
) -> Decision:
    return Decision(ns(k), source, to, "apart", "it is too full", exchange=exchange)


def left(
    *decisions: Decision,
    mode: Mode = "fixed",
    closed: Refusal | None = None,
    limits: LimitSettings = LimitSettings(),
    excluded: Sequence[str] = (),
    gained: Mapping[str, Gained] | None = None,
    known: PoliciesView | None = None,
    settings: FilterSettings = ANYWHERE,
    served: tuple[int, int, int] = (4, 1, 1),
    placed: bool = True,
) -> Leaving:
    """b1 at 80 % has 0 to 3 of 10 MiB/s each, b2 at 10 % has 8, b3 at 20 % has 9, or `served`."""
    full, two, three = served
    seen = view(
        broker("b1", 80.0, 40.0, bundles(*[10] * full)),
        broker("b2", 10.0, 5.0, bundles(*[5] * two, first=8)),
        broker("b3", 20.0, 5.0, bundles(*[5] * three, first=9)),
    )
    filters = Filters(settings, mode)
    by = placer("avg", None, mode) if placed else None
    rules = DestinationRules(by, filters, DestinationSettings(), WEIGHTS)
    destinations = Destinations(seen, 7, rules, policies=known or PoliciesView(), memory=DUE)
    keeps_due, budget = MODE_RULES[mode].keeps_due, Budget(limits, (), 0)
    refusals = LeavingRules(keeps_due, budget, lambda it: it in excluded, gained or {}, closed)
    known_brokers = {one.broker: one for one in seen.brokers}
    return decide(known_brokers, Shedding(decisions, (), ACTED), destinations, refusals)


def stays(found: Leaving) -> dict[str, str]:
    """Bundle → code of the reason why it stays."""
    return {name: skip.code for skip in found.skips for name in skip.names}


def hits(found: Leaving) -> dict[str, tuple[int | None, int | None]]:
    return {name: (kept.hit_high, kept.hit_low) for name, kept in found.memory.brokers.items()}


class TestOutsideOfWindows:
    def test_every_bundle_that_was_picked_is_told_and_brokers_that_were_due_still_are(self) -> None:
        found = left(leave(0), leave(1), closed=CLOSED)
        assert (found.kept, stays(found)) == ({}, dict.fromkeys((ns(0), ns(1)), "outside-window"))
        assert [skip.text for skip in found.skips] == ["it would be moved, but not now"] * 2
        assert (hits(found), found.memory.cluster.hits) == (STILL_DUE, 4)

    def test_java_counts_anew_whatever_came_of_it(self) -> None:
        assert hits(left(leave(0), closed=CLOSED, mode="parity")) == ANEW


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_bundles_of_namespaces_that_stay_do_so_in_both_modes(mode: Mode) -> None:
    """A broker that gives something else has had its turn."""
    found = left(leave(0), leave(1), excluded=[ns(0)], mode=mode)
    assert (list(found.kept), stays(found)) == ([ns(1)], {ns(0): "excluded-namespace"})
    assert hits(found) == ANEW


class TestExchanges:
    """b1 gives bundle 0 to b2, which gives bundle 8 back to make room."""

    def exchange(self) -> list[Decision]:
        return [leave(8, "b1:1", ns(0), "b2:1"), leave(0, "b2:1", ns(0))]

    def test_both_leave(self) -> None:
        assert list(left(*self.exchange(), settings=EXTENSIBLE).kept) == [ns(8), ns(0)]

    @pytest.mark.parametrize(("excluded", "other"), [(0, 8), (8, 0)])
    def test_or_none(self, excluded: int, other: int) -> None:
        found = left(*self.exchange(), leave(1), excluded=[ns(excluded)], settings=EXTENSIBLE)
        assert stays(found) == {ns(excluded): "excluded-namespace", ns(other): "exchange"}
        assert list(found.kept) == [ns(1)]

    def test_a_destination_that_may_not_take_its_part_keeps_both(self) -> None:
        draining = policies(brokers={"b2:1": BrokerFacts(draining=True)})
        found = left(*self.exchange(), known=draining, settings=EXTENSIBLE)
        assert stays(found) == {ns(0): "draining", ns(8): "exchange"}

    @pytest.mark.parametrize(("moves", "codes"), [(1, {"budget"}), (2, set())])
    def test_the_budget_is_asked_for_both(self, moves: int, codes: set[str]) -> None:
        limits = LimitSettings(moves_per_round=moves)
        found = left(*self.exchange(), limits=limits, settings=EXTENSIBLE)
        assert set(stays(found).values()) == codes

    def test_what_the_first_changes_may_forbid_the_second_and_then_neither_goes(self) -> None:
        """Either may join the one bundle of its namespace on b2, but not after the other."""
        even: Any = {"settings": EVEN, "served": (3, 1, 0), "placed": False}
        alone = left(leave(0), leave(1), **even)
        assert list(alone.kept) == [ns(0)]
        together = leave(0, "b2:1", ns(1)), leave(1, "b2:1", ns(1))
        found = left(*together, **even)
        assert (found.kept, found.rules.budget.spent) == ({}, None)
        assert stays(found) == {ns(0): "exchange", ns(1): "uneven"}
        later = left(*together, leave(2), **even)
        assert list(later.kept) == [ns(2)], "it leaves no trace"


class TestBundlesOfTwoBrokers:
    def test_one_command_is_enough(self) -> None:
        found = left(leave(0), leave(0, "b3:1", source="b2:1"))
        assert [decision.source for decision in found.kept.values()] == ["b1:1"]
        assert [(skip.code, skip.text, skip.broker) for skip in found.skips] == [
            ("on-two-brokers", "it is reported by b1:1 too: it is moving already", "b2:1")
        ]

    def test_a_bundle_that_arrived_elsewhere_is_not_given_by_its_old_broker(self) -> None:
        gained = {ns(0): Gained("b3:1", 6), ns(1): Gained("b1:1", 6)}
        found = left(leave(0), leave(1), gained=gained)
        assert (list(found.kept), stays(found)) == ([ns(1)], {ns(0): "on-two-brokers"})


def test_a_bundle_that_a_filter_keeps_spends_nothing() -> None:
    nowhere = policies(brokers={name: BrokerFacts(draining=True) for name in ("b2:1", "b3:1")})
    found = left(leave(0), known=nowhere)
    assert (stays(found), found.rules.budget.spent) == ({ns(0): "no-destination"}, None)
    assert hits(found) == STILL_DUE
