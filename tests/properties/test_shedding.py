"""What must hold of every strategy on every legal view, in whatever order brokers and bundles come."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.model import BrokerLoad, BrokerMemory, BundleLoads, ClusterView, Figures, Memory, Resource, Shedding, Traffic
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS, shedder
from strategies.system_bundles import is_system_bundle
from tests.properties.legal import EAGER, MODES, WEIGHTS, memories, modes, seeds, settings_of, shuffled, views
from tests.unit.shedding_builders import ns, play

any_strategy = pytest.mark.parametrize("strategy", list(SHEDDERS))
any_mode = pytest.mark.parametrize("mode", MODES)
histories = st.lists(views, min_size=1, max_size=3)


def rounds(strategy: str, mode: Mode, seen: list[ClusterView], memory: Memory, settings: object | None = None) -> list[Shedding]:
    return play(shedder(strategy, settings or EAGER[strategy], WEIGHTS, mode), *seen, memory=memory)


@any_strategy
@given(data=st.data(), seen=histories, memory=memories, seed=seeds)
def test_the_order_of_brokers_and_bundles_changes_nothing(
    strategy: str, data: st.DataObject, seen: list[ClusterView], memory: Memory, seed: int
) -> None:
    chosen = data.draw(settings_of(strategy))
    other = [shuffled(view, seed) for view in seen]
    assert rounds(strategy, "fixed", seen, memory, chosen) == rounds(strategy, "fixed", other, memory, chosen)


@any_strategy
@given(seen=histories, memory=memories)
def test_a_fixed_round_moves_only_what_may_move_and_at_most_once(strategy: str, seen: list[ClusterView], memory: Memory) -> None:
    for view, round_ in zip(seen, rounds(strategy, "fixed", seen, memory), strict=True):
        by_name = {broker.broker: broker for broker in view.brokers}
        moved = [decision.bundle for decision in round_.decisions]
        assert len(moved) == len(set(moved))
        for decision in round_.decisions:
            ends = [by_name[decision.source], *([by_name[decision.destination]] if decision.destination else [])]
            assert decision.bundle in by_name[decision.source].bundles.names
            assert not any(broker.settling for broker in ends)
            assert len({broker.broker for broker in ends}) == len(ends)
            assert decision.bundle not in view.cooling
            assert not is_system_bundle(decision.bundle, "fixed")
            assert decision.destination or strategy != "avg"


@any_strategy
@any_mode
@given(seen=histories, memory=memories)
def test_a_broker_gives_only_what_it_serves_and_each_bundle_once(
    strategy: str, mode: Mode, seen: list[ClusterView], memory: Memory
) -> None:
    for view, round_ in zip(seen, rounds(strategy, mode, seen, memory), strict=True):
        served = {(broker.broker, bundle) for broker in view.brokers for bundle in broker.bundles.names}
        leaving = [(decision.source, decision.bundle) for decision in round_.decisions]
        assert set(leaving) <= served
        assert len(leaving) == len(set(leaving))


@any_strategy
@any_mode
@given(view=views, memory=memories)
def test_whatever_is_left_alone_has_a_reason(strategy: str, mode: Mode, view: ClusterView, memory: Memory) -> None:
    (round_,) = rounds(strategy, mode, [view], memory)
    sources = {decision.source for decision in round_.decisions}
    explained = {named for skip in round_.skips for named in skip.names}
    involved = sources | {decision.destination for decision in round_.decisions}
    if "c" not in explained or strategy in ("avg", "overload"):
        paired = {str(decision.evidence.get("paired_with")) for decision in round_.decisions}
        assert {broker.broker for broker in view.brokers} <= explained | involved | paired
    for broker in view.brokers:
        if broker.broker in sources:
            leaving = {decision.bundle for decision in round_.decisions if decision.source == broker.broker}
            skipped = {named for skip in round_.skips if skip.broker == broker.broker for named in skip.names}
            assert leaving | skipped == set(broker.bundles.names)
    assert all(skip.names and skip.code and skip.text for skip in round_.skips)


@any_strategy
@given(view=views, memory=memories)
def test_not_fresh_brokers_advance_nothing(strategy: str, view: ClusterView, memory: Memory) -> None:
    stale = replace(view, brokers=tuple(replace(broker, fresh=False) for broker in view.brokers))
    (round_,) = rounds(strategy, "fixed", [stale], memory)
    for broker, before in memory.brokers.items():
        after = round_.memory.brokers.get(broker, BrokerMemory())
        assert before.ewma is None or after.ewma == before.ewma
        assert after.hit_low is None or after.hit_low <= (before.hit_low or 0)


@any_strategy
@given(seen=histories, memory=memories, mode=modes, data=st.data())
def test_no_strategy_raises_whatever_it_is_set_to_and_whoever_leaves(
    strategy: str, seen: list[ClusterView], memory: Memory, mode: Mode, data: st.DataObject
) -> None:
    rule = shedder(strategy, data.draw(settings_of(strategy)), WEIGHTS, mode)
    for view in seen:
        memory = rule.retain(memory, [broker.broker for broker in view.brokers])
        memory = rule.shed(view, memory).memory
        assert all(isinstance(rule.usage(broker), float) for broker in view.brokers)


nasty = st.floats() | st.sampled_from([-1.0, 1e308, 5e-324])


@any_strategy
@any_mode
@given(figures=st.lists(st.builds(Resource, nasty, nasty), min_size=1, max_size=5), traffic=st.builds(Traffic, nasty, nasty, nasty, nasty))
def test_nonsense_raises_nothing_and_leaves_finite_memory(strategy: str, mode: Mode, figures: list[Resource], traffic: Traffic) -> None:
    row = np.array([[traffic.msg_rate_in, traffic.msg_rate_out, traffic.msg_throughput_in, traffic.msg_throughput_out]] * 3)
    one = np.ones(3, dtype=np.int64)
    table = BundleLoads((ns(0), ns(1), ns(2)), row, row, one, one, one, one, row)
    seen = tuple(
        BrokerLoad(
            f"b{index}",
            Figures(cpu=cpu, bandwidth_in=cpu, bandwidth_out=cpu, direct_memory=cpu, traffic=traffic, bundle_count=3),
            lambda: table,
        )
        for index, cpu in enumerate(figures)
    )
    for round_ in rounds(strategy, mode, [ClusterView("c", 0, seen)] * 2, Memory()):
        kept = [broker.ewma for broker in round_.memory.brokers.values() if broker.ewma is not None]
        assert mode == "parity" or all(isfinite(ewma) for ewma in kept)
