"""The closed loop on a real cluster: brokers, clients, collector, Spark job and executor are processes of their own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.servers.loop import SETTINGS, closed_loop
from tests.servers.pulsar_processes import PulsarProcesses
from tests.servers.skewed_users import skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark]
LIMIT = float(str(SETTINGS["shedding.uniform.throughput_ratio"]))


def test_a_skewed_cluster_is_brought_below_the_spread_and_stays_there(modular: PulsarProcesses, tmp_path: Path) -> None:
    settings = modular.cluster.settings(tmp_path)
    with skewed_users(modular.cluster, tmp_path, "t/skewed") as users:
        before, load_before = users.spread(), users.load()
        with closed_loop(tmp_path / "loop", settings) as loop:
            loop.wait_until(lambda: users.spread() < LIMIT, 180, "the spread is below the limit")
            balanced_at = len(loop.rounds())
            loop.wait_until(lambda: len(loop.rounds()) >= balanced_at + 3, 90, "three more rounds")
            after, load_after = users.spread(), users.load()
            outcomes = loop.outcomes()
            for r in loop.rounds():
                print(r.round, r.throughput_spread, len(r.commands), [(x.code, x.text) for x in r.skips][:4])
        traffic = users.end()
    moved = Counter(one.bundle for one in outcomes if one.status == "applied")
    print(before, load_before, after, load_after, balanced_at, len(moved), traffic.acknowledged, traffic.doubled, traffic.failed)
    assert after < LIMIT < before
    assert max(moved.values()) == 1
    assert traffic.lost == {}
