"""What must hold of every legal view, in whatever order brokers and bundles come: hypothesis looks for a counterexample."""

from __future__ import annotations

import random
from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.model import BrokerLoad, BrokerMemory, BundleLoads, ClusterView, Figures, Memory, Resource, Shedding, Traffic
from strategies.settings import Mode
from strategies.shedding.avg_rule import AvgSettings
from strategies.shedding.contract import Shedder
from strategies.shedding.overload_rule import OverloadSettings
from strategies.shedding.registry import shedder
from strategies.shedding.threshold_rule import ThresholdSettings
from strategies.shedding.transfer_rule import TransferSettings
from strategies.shedding.uniform_rule import UniformSettings
from strategies.system_bundles import is_system_bundle
from tests.unit.shedding_builders import WEIGHTS, loads, ns, play

EAGER = {
    "threshold": ThresholdSettings(threshold_percent=3.0, min_throughput_mib=0.0, lower_boundary=True),
    "avg": AvgSettings(low_threshold=5.0, high_threshold=20.0, hit_count_low=2, hit_count_high=1, min_msg_rate=0.0, min_throughput=0.0),
    "overload": OverloadSettings(threshold_percent=10.0),
    "transfer": TransferSettings(target_std=0.02, hit_count=0, history=0.5),
    "uniform": UniformSettings(rate_difference_percent=5.0, throughput_ratio=1.1, max_unload=0.5, min_msg_rate=0.0, min_throughput=0.0),
}
NAMES = [
    *(ns(k) for k in range(16)),
    *(ns(k, "ünï/😀") for k in range(8)),
    "pulsar/b1:1/0x0_0xf",
    "pulsar/system/0x0_0xf",
    "sla-monitor/c/b2:1/0x0_0xf",
]

few = st.sampled_from([0.0, 1.0, 10.0, 10.0, 25.0, 1e6, 3e7])
rates = few | st.floats(0, 1e12)
resources = st.sampled_from([Resource(), Resource(-1.0, -1.0)]) | st.builds(Resource, few | st.floats(0, 1e6), st.just(100.0))


@st.composite
def brokers(draw: st.DrawFn) -> BrokerLoad:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    table = np.array([[draw(rates), 0.0, draw(rates), 1.0] for _ in names]).reshape(len(names), 4)
    one = np.ones(len(names), dtype=np.int64)
    kept = BundleLoads(tuple(names), table, table, one, one, one, one, table)
    traffic = draw(st.sampled_from([Traffic(), Traffic(*table.sum(axis=0).tolist())]) | st.builds(Traffic, rates, rates, rates, rates))
    cpu, memory, direct_memory, bandwidth_in, bandwidth_out = (draw(resources) for _ in range(5))
    count = len(names) + draw(st.integers(0, 2))
    figures = Figures(cpu, memory, direct_memory, bandwidth_in, bandwidth_out, traffic, count)
    return BrokerLoad(
        draw(st.sampled_from("abcdefghij")), figures, lambda: kept, draw(st.booleans()), draw(st.sampled_from([False, False, True]))
    )


views = st.builds(
    lambda found, cooling: ClusterView("c", 0, tuple(found), cooling),
    st.lists(brokers(), max_size=6, unique_by=lambda broker: broker.broker),
    st.frozensets(st.sampled_from(NAMES), max_size=4),
)
memories = st.builds(
    Memory,
    st.dictionaries(
        st.sampled_from("abcdefghij"),
        st.builds(BrokerMemory, st.none() | st.floats(0, 2), st.none(), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
    ),
)
any_shedder = pytest.mark.parametrize("name", ["threshold", "avg", "overload", "uniform", "transfer"])
quickly = settings(max_examples=40, deadline=None)


def eager(name: str, mode: Mode = "fixed") -> Shedder:
    return shedder(name, EAGER[name], WEIGHTS, mode)


def shuffled(view: ClusterView, seed: int) -> ClusterView:
    """The same cluster, brokers and the rows of every table in another order."""
    chance = random.Random(seed)

    def mixed(broker: BrokerLoad) -> BrokerLoad:
        table, rows = broker.bundles, list(range(len(broker.bundles.names)))
        chance.shuffle(rows)
        names, average, one = tuple(table.names[row] for row in rows), table.short[rows], table.topics[rows]
        other = BundleLoads(names, average, average, one, one, one, one, average)
        return replace(broker, load_bundles=lambda: other)

    found = [mixed(broker) for broker in view.brokers]
    chance.shuffle(found)
    return replace(view, brokers=tuple(found))


def rounds(name: str, mode: Mode, seen: list[ClusterView], memory: Memory) -> list[Shedding]:
    return play(eager(name, mode), *seen, memory=memory)


@any_shedder
@quickly
@given(seen=st.lists(views, min_size=1, max_size=3), memory=memories, seed=st.integers(0, 99))
def test_the_order_of_brokers_and_bundles_changes_nothing(name: str, seen: list[ClusterView], memory: Memory, seed: int) -> None:
    assert rounds(name, "fixed", seen, memory) == rounds(name, "fixed", [shuffled(view, seed) for view in seen], memory)


@any_shedder
@quickly
@given(view=views, memory=memories)
def test_a_fixed_round_moves_only_what_may_move_and_at_most_once(name: str, view: ClusterView, memory: Memory) -> None:
    (round_,) = rounds(name, "fixed", [view], memory)
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
    if name == "avg":
        assert all(decision.destination for decision in round_.decisions)


@any_shedder
@pytest.mark.parametrize("mode", ["fixed", "parity"])
@quickly
@given(view=views, memory=memories)
def test_whatever_is_left_alone_has_a_reason(name: str, mode: Mode, view: ClusterView, memory: Memory) -> None:
    (round_,) = rounds(name, mode, [view], memory)
    sources = {decision.source for decision in round_.decisions}
    explained = {named for skip in round_.skips for named in skip.names}
    involved = sources | {decision.destination for decision in round_.decisions}
    if "c" not in explained or name in ("avg", "overload"):
        assert {broker.broker for broker in view.brokers} <= explained | involved | {
            str(d.evidence.get("paired_with")) for d in round_.decisions
        }
    for broker in view.brokers:
        if broker.broker in sources:
            leaving = {decision.bundle for decision in round_.decisions if decision.source == broker.broker}
            skipped = {named for skip in round_.skips if skip.broker == broker.broker for named in skip.names}
            assert leaving | skipped == set(broker.bundles.names)
    assert all(skip.names and skip.code and skip.text for skip in round_.skips)


@any_shedder
@quickly
@given(view=views, memory=memories)
def test_not_fresh_brokers_advance_nothing(name: str, view: ClusterView, memory: Memory) -> None:
    stale = replace(view, brokers=tuple(replace(broker, fresh=False) for broker in view.brokers))
    (round_,) = rounds(name, "fixed", [stale], memory)
    for broker, before in memory.brokers.items():
        after = round_.memory.brokers.get(broker, BrokerMemory())
        assert before.ewma is None or after.ewma == before.ewma
        assert after.hit_low is None or after.hit_low <= (before.hit_low or 0)


nasty = st.floats() | st.sampled_from([-1.0, 1e308, 5e-324])


@any_shedder
@pytest.mark.parametrize("mode", ["fixed", "parity"])
@quickly
@given(figures=st.lists(st.builds(Resource, nasty, nasty), min_size=1, max_size=5), traffic=st.builds(Traffic, nasty, nasty, nasty, nasty))
def test_nonsense_raises_nothing_and_leaves_finite_memory(name: str, mode: Mode, figures: list[Resource], traffic: Traffic) -> None:
    table = loads({})
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
    for round_ in rounds(name, mode, [ClusterView("c", 0, seen)] * 2, Memory()):
        kept = [broker.ewma for broker in round_.memory.brokers.values() if broker.ewma is not None]
        assert mode == "parity" or all(isfinite(ewma) for ewma in kept)
