"""Bundles that change places do so together or not at all, whatever refuses one of them, and as
late as it may.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strategies.cluster.budget import Budget
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.memory import Memory
from strategies.cluster.model import BrokerLoad, Decision
from strategies.filters.pipeline import Filters, FilterSettings
from strategies.placement.destination_rules import DestinationRules, DestinationSettings
from strategies.placement.destinations import Destinations
from strategies.round.clearance import Leaving, LeavingRules, decide
from strategies.shedding.contract import Shedding
from tests.world.brokers import WEIGHTS, broker, bundles, ns, view

#: Even distribution allows b2 one bundle more than b1 would have left.
EVEN = FilterSettings(load_manager="modular")
ANYWHERE = FilterSettings(load_manager="extensible")


def exchanged(bundle: str, source: str, destination: str, exchange: str) -> Decision:
    return Decision(bundle, source, destination, "swap", "it changes places", exchange=exchange)


def left(
    brokers: Sequence[BrokerLoad],
    *decisions: Decision,
    filters: FilterSettings = ANYWHERE,
    limits: LimitSettings = LimitSettings(),
) -> Leaving:
    seen = view(*brokers)
    rules = DestinationRules(None, Filters(filters, "fixed"), DestinationSettings(), WEIGHTS)
    destinations = Destinations(seen, 1, rules, policies=seen.policies, memory=Memory())
    gate = LeavingRules(True, Budget(limits, (), 0), seen.is_excluded, {})
    return decide(
        {one.broker: one for one in brokers}, Shedding(decisions, (), Memory()), destinations, gate
    )


def both(exchange: str = ns(0)) -> tuple[Decision, Decision]:
    return exchanged(ns(4), "b2:1", "b1:1", exchange), exchanged(ns(0), "b1:1", "b2:1", exchange)


def test_both_go() -> None:
    found = left(
        [broker("b1", 90, 50, bundles(45, 5)), broker("b2", 10, 10, bundles(5, 5, first=4))],
        *both(),
    )
    assert {bundle: one.destination for bundle, one in found.kept.items()} == {
        ns(4): "b1:1",
        ns(0): "b2:1",
    }


@pytest.mark.parametrize("moves_per_round", [1])
def test_a_budget_for_one_is_none_for_two(moves_per_round: int) -> None:
    brokers = [broker("b1", 90, 50, bundles(45, 5)), broker("b2", 10, 10, bundles(5, 5, first=4))]
    found = left(brokers, *both(), limits=LimitSettings(moves_per_round=moves_per_round))
    assert (found.kept, [skip.code for skip in found.skips]) == ({}, ["budget", "budget"])


def test_what_the_first_changes_may_forbid_the_second_and_then_neither_goes() -> None:
    """Each of two may join the one bundle of the namespace that b2 has, as b1 has three of them;
    after the first the second may not.
    """
    brokers = [
        broker("b1", 90, 50, bundles(30, 10, 10)),
        broker("b2", 10, 10, bundles(5, first=4)),
        broker("b3", 20, 10, {}),
    ]
    together = exchanged(ns(0), "b1:1", "b2:1", ns(1)), exchanged(ns(1), "b1:1", "b2:1", ns(1))
    alone = left(
        brokers,
        *(
            Decision(one.bundle, one.source, one.destination, one.code, one.text)
            for one in together
        ),
        filters=EVEN,
    )
    assert list(alone.kept) == [ns(0)]
    found = left(brokers, *together, filters=EVEN)
    assert found.kept == {}
    assert [(skip.names, skip.code) for skip in found.skips] == [
        ((ns(0),), "exchange"),
        ((ns(1),), "uneven"),
    ]
    assert found.rules.budget.spent is None


def test_an_exchange_that_was_taken_back_leaves_no_trace() -> None:
    brokers = [
        broker("b1", 90, 50, bundles(30, 10, 10)),
        broker("b2", 10, 10, bundles(5, first=4)),
        broker("b3", 20, 10, {}),
    ]
    together = exchanged(ns(0), "b1:1", "b2:1", ns(1)), exchanged(ns(1), "b1:1", "b2:1", ns(1))
    found = left(brokers, *together, Decision(ns(2), "b1:1", "b2:1", "x", "x"), filters=EVEN)
    assert list(found.kept) == [ns(2)]
