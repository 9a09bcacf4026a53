"""What must hold of every strategy on every legal view."""

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.steady_invariants import infinite_figures
from strategies.bundles import BundleLoads, is_system_bundle
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.cluster.strategy_memory import BrokerMemory, Memory
from strategies.settings import Mode
from strategies.shedding.contract import Shedder, Shedding
from tests.properties.legal import (
    EAGER,
    WEIGHTS,
    a_memory,
    a_view,
    any_strategy,
    as_its_own,
    fitting,
    memories,
    modes,
    mostly,
    views,
)
from tests.world.brokers import ns, shedder

histories = st.lists(views, min_size=1, max_size=3)


def rule_of(strategy: str, mode: Mode, *, eager: bool) -> Shedder:
    """With settings that nearly always find something to move, or with Pulsar's defaults."""
    return shedder(strategy, EAGER[strategy] if eager else None, WEIGHTS, mode)


# Two brokers report a bundle that SteadyShedder moves, or that its advice is about.
@pytest.mark.heavy
@any_strategy
@example(seen=[a_view(876_000, 6, 5)], memory=a_memory(541), mode="fixed", eager=True)
@example(seen=[a_view(592_323, 5, 3)], memory=a_memory(1736), mode="fixed", eager=True)
@given(seen=histories, memory=memories, mode=modes, eager=mostly)
def test_no_strategy_raises_and_every_round_keeps_its_promises(
    strategy: str, seen: list[ClusterView], memory: Memory, mode: Mode, eager: bool
) -> None:
    rule, memory = rule_of(strategy, mode, eager=eager), as_its_own(memory, strategy)
    for view in seen:
        known = {broker.broker for broker in view.brokers}
        memory = replace(
            memory, brokers={name: one for name, one in memory.brokers.items() if name in known}
        )
        fits = fitting(memory, view) if strategy == "steady" else memory
        round_ = rule.shed(view, fits)
        memory = round_.memory
        brokers_give_what_they_serve_and_each_bundle_once(view, round_)
        whatever_is_left_alone_has_a_reason(
            view, round_, may_speak_for_all=strategy not in ("avg", "overload")
        )
        if mode == "fixed":
            only_what_may_move_moves_and_once(view, round_)
            assert strategy != "avg" or all(decision.destination for decision in round_.decisions)


def brokers_give_what_they_serve_and_each_bundle_once(view: ClusterView, round_: Shedding) -> None:
    served = {(broker.broker, bundle) for broker in view.brokers for bundle in broker.bundles.names}
    leaving = [(decision.source, decision.bundle) for decision in round_.decisions]
    assert set(leaving) <= served
    assert len(leaving) == len(set(leaving))


def whatever_is_left_alone_has_a_reason(
    view: ClusterView, round_: Shedding, *, may_speak_for_all: bool
) -> None:
    """`may_speak_for_all`: one reason for the whole cluster is enough."""
    sources = {decision.source for decision in round_.decisions}
    explained = {named for skip in round_.skips for named in skip.names}
    involved = sources | {decision.destination for decision in round_.decisions}
    if not (may_speak_for_all and "c" in explained):
        paired = {str(decision.evidence.get("paired_with")) for decision in round_.decisions}
        assert {broker.broker for broker in view.brokers} <= explained | involved | paired
    for broker in view.brokers:
        if broker.broker in sources:
            leaving = {
                decision.bundle for decision in round_.decisions if decision.source == broker.broker
            }
            skipped = {
                named
                for skip in round_.skips
                if skip.broker == broker.broker
                for named in skip.names
            }
            assert leaving | skipped == set(broker.bundles.names)
    assert all(skip.names and skip.code and skip.text for skip in round_.skips)


def only_what_may_move_moves_and_once(view: ClusterView, round_: Shedding) -> None:
    by_name = {broker.broker: broker for broker in view.brokers}
    moved = [decision.bundle for decision in round_.decisions]
    assert len(moved) == len(set(moved))
    for decision in round_.decisions:
        ends = [
            by_name[decision.source],
            *([by_name[decision.destination]] if decision.destination else []),
        ]
        assert not any(broker.settling for broker in ends)
        assert len({broker.broker for broker in ends}) == len(ends)
        assert decision.bundle not in view.cooling
        assert not is_system_bundle(decision.bundle)


@any_strategy
@given(view=views, memory=memories)
def test_not_fresh_brokers_advance_nothing(
    strategy: str, view: ClusterView, memory: Memory
) -> None:
    """A broker of the extensible load manager averages by itself: what it says counts whenever it
    says it.
    """
    brokers = [
        replace(broker, fresh=False, figures=replace(broker.figures, usage_average=None))
        for broker in view.brokers
    ]
    round_ = rule_of(strategy, "fixed", eager=True).shed(
        replace(view, brokers=tuple(brokers)), as_its_own(memory, strategy)
    )
    for broker, before in memory.brokers.items():
        after = round_.memory.brokers.get(broker, BrokerMemory())
        assert before.ewma is None or after.ewma == before.ewma
        assert after.hit_low is None or after.hit_low <= (before.hit_low or 0)


#: The figure of each resource of a broker, and its traffic.
Reported = tuple[Resource, Traffic]
nasty = st.floats() | st.sampled_from([-1.0, 0.0, 1.0, 1e308, 5e-324])
measured = nasty.filter(lambda figure: not figure < 0)


def figures_of(resource: st.SearchStrategy[float]) -> st.SearchStrategy[list[Reported]]:
    limit, traffic = resource | st.just(100.0), st.builds(Traffic, nasty, nasty, nasty, nasty)
    one = st.tuples(st.builds(Resource, resource | st.floats(0, 100), limit), traffic)
    return st.lists(one, min_size=1, max_size=4)


#: Changing figures of resources are not negative, as the decoder has it.
nonsense = st.lists(figures_of(measured), min_size=2, max_size=6) | figures_of(nasty).map(
    lambda figures: [figures] * 2
)
IDLE = (Resource(0.0, 100.0), Traffic(0.0, 0.0, 0.0, 0.0))
#: Bytes of infinite cost, for SteadyShedder.
INFINITE_COST = [
    IDLE,
    (Resource(0.0, 100.0), Traffic(0.0, 0.0, 5e-324, 5e-324)),
    (Resource(1.0, 100.0), Traffic(0.0, 1.0, 0.0, 0.0)),
]


@pytest.mark.heavy
@any_strategy
@example(seen=[INFINITE_COST, *[[IDLE, IDLE, IDLE]] * 3], mode="fixed")
@given(seen=nonsense, mode=modes)
def test_nonsense_raises_nothing_and_leaves_finite_memory(
    strategy: str, seen: list[list[Reported]], mode: Mode
) -> None:
    """Rounds a minute apart in which brokers report nonsense."""
    rule, memory = rule_of(strategy, mode, eager=True), Memory()
    for now_ms in range(0, 60_000 * len(seen), 60_000):
        figures = seen[now_ms // 60_000]
        loads = tuple(a_load(f"b{row}", now_ms, *one) for row, one in enumerate(figures))
        round_ = rule.shed(ClusterView("c", now_ms, loads), memory)
        memory = round_.memory
        round_.certify(())
        if mode == "fixed":
            kept = [one.ewma for one in memory.brokers.values() if one.ewma is not None]
            assert all(map(isfinite, kept))
            assert strategy != "steady" or infinite_figures(memory) == []


def a_load(name: str, at_ms: int, resource: Resource, traffic: Traffic) -> BrokerLoad:
    """A broker of three bundles that each carry all its traffic."""
    rates = traffic.msg_rate_in, traffic.msg_rate_out
    row = np.array([(*rates, traffic.msg_throughput_in, traffic.msg_throughput_out)] * 3)
    one, names = np.ones(3, dtype=np.int64), tuple(ns(number, name) for number in range(3))
    table = BundleLoads(names, row, row, one, one, one, one, row)
    figures = Figures(
        cpu=resource,
        bandwidth_in=resource,
        bandwidth_out=resource,
        direct_memory=resource,
        traffic=traffic,
        bundle_count=3,
    )
    return BrokerLoad(name, figures, lambda: table, fresh=True, reported_at_ms=at_ms)
