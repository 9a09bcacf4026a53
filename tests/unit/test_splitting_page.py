"""The worked examples of docs/STRATEGIES.md about splits, top bundles and averages are what the
code answers.
"""

import re
from collections.abc import Mapping

import numpy as np
import pytest

from pulsar_rebalancer.lab.conformance.averaging import SmoothedLoad, SmoothingSettings
from pulsar_rebalancer.lab.conformance.split_positions import (
    SplitFault,
    SplitRequest,
    TopicFlow,
    cuts,
)
from strategies.bundles import FULL, KeyRange, hexadecimal
from strategies.cluster.model import BundleStats, Figures, Resource
from strategies.filters.policies import PoliciesView
from strategies.settings import Mode, Weights
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles, top_bundles
from strategies.splitting.due import SPLITTERS
from strategies.splitting.limits import SplitSettings
from strategies.splitting.when_extensible import BrokerContext
from tests.unit.strategies_page import example
from tests.world.brokers import MIB, ns
from tests.world.splits import stats, topic_of

both = pytest.mark.parametrize("mode", ["parity", "fixed"])


def numbers(cell: str) -> list[int]:
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
        rows = zip(numbers(hashes), numbers(rates), numbers(throughputs), strict=True)
        flows = {
            topic_of(hash_): TopicFlow(float(rate), float(mib * MIB)) for hash_, rate, mib in rows
        }
        rate, mib = numbers(limits)
        settings = SplitSettings(max_msg_rate=rate, max_bandwidth_mib=mib)
        request = SplitRequest(KeyRange(0, FULL), list(flows), flows, settings=settings)
        found = cuts("flow_or_qps_equally_divide", request)
        assert not isinstance(found, SplitFault)
        assert ", ".join(map(hexadecimal, found or ())) == expected


@both
def test_top_bundles(mode: Mode) -> None:
    for cell, most, expected in example("top_bundles"):
        loads = numbers(cell)
        traffic = np.array([(0.0, 0.0, float(load), 0.0) for load in loads])
        one = np.ones(len(loads), dtype=np.int64)
        seen = BundleStats(tuple(ns(index) for index in range(len(loads))), traffic, one, one)
        found = (top_bundles if mode == "fixed" else java_top_bundles)(
            seen, PoliciesView(), TopSettings(int(most))
        )
        assert not isinstance(found, TopFault)
        assert [loads[row] for row in found] == numbers(expected)


def test_smoothed_load() -> None:
    (_, *samples), load = example("smoothed_load"), SmoothedLoad()
    for _, usage, expected in samples:
        figures = Figures(cpu=Resource(float(numbers(usage)[0]), 100.0))
        load = load.after(figures, Weights(), SmoothingSettings())
        assert f"{load.weighted:g}" == expected
