"""`rebalancer watch` on a real cluster: its page shows every broker and the first round, and nothing
on the cluster is changed.

`pytest tests/servers/test_watch_command.py -rP` prints the time from the first pass to the page.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import DESKTOP
from tests.servers.cluster_snapshot import snapshot
from tests.servers.process import Process
from tests.servers.pulsar_cluster import PulsarCluster
from tests.servers.skewed_users import skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.browser]
MANAGERS = {"modular": "pulsar", "extensible": "guarded_pulsar"}
#: Of the traffic, by broker.
SHARES = (0.15, 0.25, 0.6)


@pytest.mark.parametrize("manager", ["modular", pytest.param("extensible", marks=pytest.mark.slow)])
def test_one_command_shows_a_cluster_and_changes_nothing(
    manager: str, request: pytest.FixtureRequest, browser: Browser, tmp_path: Path
) -> None:
    cluster: PulsarCluster = request.getfixturevalue(MANAGERS[manager])
    page = browser.new_context(**DESKTOP).new_page()
    with skewed_users(cluster, tmp_path, f"t/watched-{manager}", bundles=16, shares=SHARES):
        before = snapshot(cluster, tmp_path)
        with Process(tmp_path / "watch.log", *words(cluster, tmp_path)) as watch:
            watch.wait_for("page ")
            address = re.search(r"page +(http://\S+)", watch.said)
            assert address is not None
            page.goto(address[1], wait_until="domcontentloaded")
            first_s = shown(page, cluster, tmp_path)
            page.screenshot(path=tmp_path / "watch.png", full_page=True)
            watch.signal(signal.SIGINT)
            assert watch.wait() == 130
        assert snapshot(cluster, tmp_path) == before
    print(f"{manager}: the page had the first round {first_s:.0f} s after the first pass")
    assert {one.status for one in outcomes(tmp_path)} <= {"dry-run"}
