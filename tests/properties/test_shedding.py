"""What must hold of every strategy on every legal view, in whatever order brokers and bundles
come.
"""

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strategies.bundles import BundleLoads, is_system_bundle
from strategies.cluster.memory import BrokerMemory, Memory
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.settings import Mode
from strategies.shedding.contract import Shedder, Shedding
from strategies.shedding.registry import SHEDDERS
from tests.properties.legal import (
    EAGER,
    WEIGHTS,
    a_memory,
    a_view,
    as_its_own,
    fitting,
    memories,
    modes,
    mostly,
    seeds,
    shuffled,
    views,
)
from tests.world.brokers import ns, shedder
from tests.world.sheddings import play

any_strategy = pytest.mark.parametrize("strategy", list(SHEDDERS))
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


@pytest.mark.heavy
@any_strategy
@given(seen=histories, memory=memories, eager=mostly, seed=seeds)
def test_the_order_of_brokers_and_bundles_changes_nothing(
    strategy: str, seen: list[ClusterView], memory: Memory, eager: bool, seed: int
) -> None:
    rule, memory = rule_of(strategy, "fixed", eager=eager), as_its_own(memory, strategy)
    assert play(rule, *seen, memory=memory) == play(
        rule, *(shuffled(view, seed) for view in seen), memory=memory
    )


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
    memory = as_its_own(memory, strategy)
    round_ = rule_of(strategy, "fixed", eager=True).shed(
        replace(view, brokers=tuple(brokers)), memory
    )
    for broker, before in memory.brokers.items():
        after = round_.memory.brokers.get(broker, BrokerMemory())
        assert before.ewma is None or after.ewma == before.ewma
        assert after.hit_low is None or after.hit_low <= (before.hit_low or 0)


nasty = st.floats() | st.sampled_from([-1.0, 1e308, 5e-324])


@any_strategy
@given(
    mode=modes,
    figures=st.lists(st.builds(Resource, nasty, nasty), min_size=1, max_size=5),
    traffic=st.builds(Traffic, nasty, nasty, nasty, nasty),
)
def test_nonsense_raises_nothing_and_leaves_finite_memory(
    strategy: str, mode: Mode, figures: list[Resource], traffic: Traffic
) -> None:
    row = np.array(
        [
            [
                traffic.msg_rate_in,
                traffic.msg_rate_out,
                traffic.msg_throughput_in,
                traffic.msg_throughput_out,
            ]
        ]
        * 3
    )
    one = np.ones(3, dtype=np.int64)
    table = BundleLoads((ns(0), ns(1), ns(2)), row, row, one, one, one, one, row)
    seen = tuple(
        BrokerLoad(
            f"b{index}",
            Figures(
                cpu=cpu,
                bandwidth_in=cpu,
                bandwidth_out=cpu,
                direct_memory=cpu,
                traffic=traffic,
                bundle_count=3,
            ),
            lambda: table,
        )
        for index, cpu in enumerate(figures)
    )
    for round_ in play(rule_of(strategy, mode, eager=True), *[ClusterView("c", 0, seen)] * 2):
        kept = [broker.ewma for broker in round_.memory.brokers.values() if broker.ewma is not None]
        assert mode == "parity" or all(isfinite(ewma) for ewma in kept)
