"""The worked examples of pages about strategies, splits and throttling are what code answers."""

import re
from collections.abc import Mapping

import numpy as np
import pytest

from pulsar_rebalancer.lab.conformance.averaging import SmoothedLoad, SmoothingSettings
from pulsar_rebalancer.lab.conformance.split_algorithms import (
    SplitFault,
    SplitRequest,
    TopicFlow,
    cuts,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.limiters import (
    LIMITERS,
    DispatchRate,
    PublishRate,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from strategies.bundles import FULL, KeyRange, hexadecimal
from strategies.cluster.model import BundleStats, ClusterView, Evidence, Figures, Resource
from strategies.filters.policies import PoliciesView
from strategies.settings import Mode, Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles, top_bundles
from strategies.splitting.bundle_limits import SplitSettings
from strategies.splitting.due import SPLITTERS
from strategies.splitting.when_extensible import BrokerContext
from tests.unit.strategies_page import PAGE, example, numbers
from tests.world.brokers import MIB, WEIGHTS, broker, bundles, ns, shedder, talking, view
from tests.world.sheddings import ewmas, play
from tests.world.splits import stats, topic_of


def figure(strategy: str, evidence: Evidence) -> tuple[float, float]:
    """Load of a bundle that leaves and what was to leave in all, in the unit of the page."""
    if strategy == "overload":
        return in_mib(evidence, "bundle_throughput"), in_mib(evidence, "to_shed")
    return float(str(evidence["bundle_load"])), float(str(evidence["need"]))


def in_mib(evidence: Evidence, name: str) -> float:
    return float(str(evidence[name])) / MIB


def leaving(strategy: str, mode: Mode, seen: ClusterView) -> tuple[str, str]:
    """Loads of the bundles that leave, and what was to leave, as the page writes them."""
    (round_,) = play(shedder(strategy, None, WEIGHTS, mode), seen)
    figures = [figure(strategy, decision.evidence) for decision in round_.decisions]
    return ", ".join(f"{load:g}" for load, _ in figures), f"{figures[0][1]:,.0f}"


@pytest.mark.parametrize(("mode", "column"), [("parity", 5), ("fixed", 6)])
def test_overload(mode: Mode, column: int) -> None:
    hot, cool = example("overload")
    (usage,), (traffic,), (low,) = numbers(hot[1]), numbers(hot[2]), numbers(cool[1])
    seen = view(broker(hot[0], usage, traffic, bundles(*numbers(hot[3]))), broker(cool[0], low))
    loads, minimum = leaving("overload", mode, seen)
    assert (loads, f"{minimum} MiB/s") == (hot[column], hot[4])


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_uniform(mode: Mode, column: int) -> None:
    busy, idle = example("uniform")
    rates = [float(row[1].replace(",", "")) for row in (busy, idle)]
    seen = view(
        broker(busy[0], 10.0, owned=talking(*numbers(busy[2])), rate=rates[0]),
        broker(idle[0], 10.0, rate=rates[1]),
    )
    assert leaving("uniform", mode, seen) == (busy[column], busy[3])


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_transfer(mode: Mode, column: int) -> None:
    rows = example("transfer")
    first = 0
    brokers = []
    for row in rows:
        (usage,), (traffic,), loads = numbers(row[1]), numbers(row[2]), numbers(row[3])
        brokers.append(broker(row[0], usage, traffic, bundles(*loads, first=first)))
        first += len(loads)
    rule = shedder("transfer", TransferSettings(hit_count=0), WEIGHTS, mode)
    (round_,) = play(rule, view(*brokers))
    for row in rows:
        moves = [move for move in round_.decisions if move.source == f"{row[0]}:1"]
        loads = [in_mib(move.evidence, "bundle_throughput") for move in moves]
        assert ", ".join(f"{load:g}" for load in loads) == row[column]


@pytest.mark.parametrize(("mode", "column"), [("parity", 4), ("fixed", 5)])
def test_threshold(mode: Mode, column: int) -> None:
    rows = example("threshold")
    seen = []
    for row in rows:
        high, low = numbers(row[1])
        one = broker("b1", high, 100.0 if row[0] == "1" else 60.0, bundles(30, 25, 25, 20))
        seen.append(
            view(one, broker("b2", low, 20.0 if row[0] == "1" else 60.0, bundles(10, 10, first=4)))
        )
    played = play(shedder("threshold", None, WEIGHTS, mode), *seen)
    for row, round_ in zip(rows, played, strict=True):
        assert [round(100 * ewmas(round_)[name], 1) for name in ("b1:1", "b2:1")] == numbers(row[2])
        moves = [decision.evidence for decision in round_.decisions]
        loads = ", ".join(f"{in_mib(move, 'bundle_throughput'):g}" for move in moves)
        assert (loads or "–") == row[column]
        assert not moves or f"{in_mib(moves[0], 'to_shed'):.1f}" == row[3]


@pytest.mark.parametrize("mode", ["parity", "fixed"])
def test_avg(mode: Mode) -> None:
    idle, busy = example("avg")
    rates = [float(row[2].replace(",", "")) for row in (idle, busy)]
    (low,), (high,) = numbers(idle[1]), numbers(busy[1])
    seen = view(
        broker("b1", low, rate=rates[0]),
        broker("b2", high, rate=rates[1], owned=talking(*numbers(busy[3]))),
    )
    rounds = play(shedder("avg", AvgSettings(max_unload=0.5), WEIGHTS, mode), *[seen] * 3)
    for round_, told in zip(rounds, busy[5:], strict=True):
        loads = (float(str(decision.evidence["bundle_load"])) for decision in round_.decisions)
        assert (", ".join(f"{load:g}" for load in loads) or "–") == told
    assert f"{float(str(rounds[1].decisions[0].evidence['to_move'])):,.0f}" == busy[4]
    assert {decision.destination for decision in rounds[1].decisions} == {"b1:1"}


both = pytest.mark.parametrize("mode", ["parity", "fixed"])


def figures_in(cell: str) -> list[int]:
    return [
        int(word, 16 if word.startswith("0x") else 10)
        for word in re.findall(r"0x[0-9a-f]+|\d+", cell)
    ]


@both
def test_split_hits(mode: Mode) -> None:
    around = BrokerContext("b1:1", lambda _: 4, lambda _: (1,))
    hits: Mapping[str, int] = {}
    for _, topics, expected, answer in example("split_hits"):
        found = SPLITTERS[mode].extensible(
            stats({ns(0): (int(topics), 1, 1.0, 1.0)}), hits, around, SplitSettings()
        )
        hits = found.hits
        assert (str(hits.get(ns(0), 0)), bool(found.decisions)) == (expected, answer == "split")


def test_split_positions() -> None:
    for hashes, rates, throughputs, limits, expected in example("split_positions"):
        rows = zip(figures_in(hashes), figures_in(rates), figures_in(throughputs), strict=True)
        flows = {
            topic_of(hash_): TopicFlow(float(rate), float(mib * MIB)) for hash_, rate, mib in rows
        }
        rate, mib = figures_in(limits)
        settings = SplitSettings(max_msg_rate=rate, max_bandwidth_mib=mib)
        request = SplitRequest(KeyRange(0, FULL), list(flows), flows, settings=settings)
        found = cuts("flow_or_qps_equally_divide", request)
        assert not isinstance(found, SplitFault)
        assert ", ".join(map(hexadecimal, found or ())) == expected


@both
def test_top_bundles(mode: Mode) -> None:
    for cell, most, expected in example("top_bundles"):
        loads = figures_in(cell)
        traffic = np.array([(0.0, 0.0, float(load), 0.0) for load in loads])
        one = np.ones(len(loads), dtype=np.int64)
        seen = BundleStats(tuple(ns(index) for index in range(len(loads))), traffic, one, one)
        found = (top_bundles if mode == "fixed" else java_top_bundles)(
            seen, PoliciesView(), TopSettings(int(most))
        )
        assert not isinstance(found, TopFault)
        assert [loads[row] for row in found] == figures_in(expected)


def test_smoothed_load() -> None:
    (_, *samples), load = example("smoothed_load"), SmoothedLoad()
    for _, usage, expected in samples:
        figures = Figures(cpu=Resource(float(figures_in(usage)[0]), 100.0))
        load = load.after(figures, Weights(), SmoothingSettings())
        assert f"{load.weighted:g}" == expected


def throttling() -> list[tuple[str, int, list[int]]]:
    """Limiter, messages delivered at once, messages each further period lets through."""
    rows = [[cell.strip("`") for cell in row] for row in example("throttling")]
    return [
        (limiter, int(delivered), [int(word) for word in periods.split(",")])
        for limiter, delivered, periods, _ in rows
    ]


@pytest.mark.parametrize(("kind", "delivered", "periods"), throttling())
def test_throttling(kind: str, delivered: int, periods: list[int]) -> None:
    limiter = LIMITERS[kind](DispatchRate(10), 0, PublishRate()).charged(delivered, 0, 0)
    answers = []
    for period in range(1, len(periods) + 1):
        limiter = limiter.seen(period * (SECOND_NS + 1), PublishRate())
        answers.append(limiter.available.messages)
        if answers[-1] == 9:
            limiter = limiter.charged(9, 0, period * (SECOND_NS + 1))
    assert answers == periods


def test_the_keys_of_dispatch_throttling_are_keys() -> None:
    section = PAGE.split("## Dispatch throttling")[1].split("\n## ")[0]
    named = set(re.findall(r"`(dispatch[A-Za-z]+|preciseDispatcherFlowControl)`", section))
    assert named
    assert named <= set(KEYS)
