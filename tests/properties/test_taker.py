"""Asking about one broker and counting one namespace are short cuts: they answer what the long way
answers.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from strategies.averages.bundle_averages import bundles_of, first_history
from strategies.cluster.model import BrokerLoad, BundleStats, ClusterView
from strategies.filters.filter_input_and_result import FilteredBundle, FilterFacts
from strategies.filters.filter_order_and_settings import Filters
from strategies.placement.contract import UNKNOWN, DestinationRules
from strategies.placement.destinations import Destinations
from strategies.placement.expected_load_ledger import CountedMove, Ledger
from strategies.placement.registry import placer
from strategies.settings import DestinationSettings
from tests.properties.legal import NAMESPACES, WEIGHTS
from tests.properties.test_placement import Story, answers, stories


def counted(view: ClusterView) -> ClusterView:
    """The same brokers, which count bundles in their packed tables."""
    return replace(
        view,
        brokers=tuple(replace(broker, count_bundles=counter(broker)) for broker in view.brokers),
    )


def counter(broker: BrokerLoad) -> Callable[[str], int]:
    table = broker.bundles
    return partial(
        bundles_of,
        first_history(
            BundleStats(table.names, table.current, table.topics, table.sessions), 1
        ).pack(),
    )


@pytest.mark.heavy
@given(story=stories())
def test_a_broker_takes_a_bundle_where_all_filters_let_it_through(story: Story) -> None:
    ledger, filters = Ledger(story.view.brokers, WEIGHTS), Filters(story.filters, "fixed")
    brokers = [broker.broker for broker in story.view.brokers]
    fleet = FilterFacts(
        story.policies,
        ledger.served,
        ledger.topics,
        ledger.bundles_of,
        ledger.arriving_topics,
        brokers[3:4],
    )
    for decision in story.decisions:
        subject = FilteredBundle(decision.bundle, decision.source, 3)
        takes = filters.taker(subject, brokers, fleet)
        assert tuple(filter(takes, brokers)) == filters.allowed(subject, brokers, fleet).brokers
        ledger.count(CountedMove(decision.bundle, decision.source, decision.destination, UNKNOWN))


@pytest.mark.heavy
@given(story=stories())
def test_one_namespace_counts_as_among_all(story: Story) -> None:
    view = counted(story.view)
    quick, slow = Ledger(view.brokers, WEIGHTS), Ledger(story.view.brokers, WEIGHTS)
    for decision in [None, *story.decisions]:
        if decision is not None:
            for ledger in (quick, slow):
                ledger.count(
                    CountedMove(decision.bundle, decision.source, decision.destination, UNKNOWN)
                )
        for broker in (*(one.broker for one in view.brokers), "nobody:1"):
            for namespace in (*NAMESPACES, "t", "none/such"):
                assert quick.bundles_of(namespace, broker) == slow.served(broker).get(namespace, 0)


@pytest.mark.heavy
@given(story=stories())
def test_the_short_cuts_change_no_destination(story: Story) -> None:
    assert answers(replace(story, view=counted(story.view)), "avg", "fixed") == answers(
        story, "avg", "fixed"
    )


@pytest.mark.heavy
@given(story=stories())
def test_somebody_can_relieve_a_broker_if_one_of_those_that_may_take_its_bundle_can(
    story: Story,
) -> None:
    rules = DestinationRules(
        placer("avg", None, "fixed"),
        Filters(story.filters, "fixed"),
        DestinationSettings(),
        WEIGHTS,
    )
    round_ = Destinations(story.view, 3, rules, policies=story.policies, memory=story.memory)
    ledger = Ledger(story.view.brokers, WEIGHTS)
    for bundle, source in {(decision.bundle, decision.source) for decision in story.decisions}:
        before = ledger.candidate(source)
        assert before is not None
        emptier = [
            taker
            for taker in round_.takers(bundle, source)
            if taker != source and ledger.usage_with(taker, bundle, source) < before.expected
        ]
        assert round_.may_be_relieved(bundle, source) is bool(emptier)


def test_names_that_only_begin_alike_are_other_namespaces() -> None:
    names = ("t/x/0x0_0x1", "t/xy/0x0_0x1", "t/x/y/0x0_0x1", "at/x/0x0_0x1", "t/x/0x1_0x2")
    none = np.zeros(len(names), dtype=np.int64)
    packed = first_history(BundleStats(names, np.zeros((len(names), 4)), none, none), 1).pack()
    expected = {"t/x": 2, "t/xy": 1, "t/x/y": 1, "t": 0, "": 0}
    assert {namespace: bundles_of(packed, namespace) for namespace in expected} == expected
    empty = first_history(BundleStats((), np.zeros((0, 4)), none[:0], none[:0]), 1).pack()
    assert bundles_of(empty, "t/x") == 0
