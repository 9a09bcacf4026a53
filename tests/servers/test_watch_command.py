"""`rebalancer watch` on a real cluster: its page shows every broker and the first round, and the
cluster stays as it was.

`pytest tests/servers/test_watch_command.py -rP` prints the time from the first pass to the page.
"""

import json
import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.topics.files.topic import FileTopicReader
from sinks.wire.record_decoding import decode_outcome
from tests.chromium import DESKTOP
from tools.processes.process import Process
from tools.servers.pulsar_cluster import Manager, PulsarCluster, pulsar_cluster, token_of
from tools.traffic.skewed_users import skewed_users
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.browser]
#: Of the traffic, by broker.
SHARES = (0.15, 0.25, 0.6)
#: The machine may be busy with other tests.
LONG_MS = 300_000


def snapshot(cluster: PulsarCluster, folder: Path) -> dict[str, Any]:
    """What the admin API says, by path."""
    headers = {"Authorization": f"Bearer {token_of('admin')}"} if cluster.guarded else {}
    base = f"http://{cluster.brokers[0]}/admin/v2"
    found: dict[str, Any] = {}
    with httpx.Client(headers=headers, follow_redirects=True, timeout=30) as client:

        def read(path: str) -> Any:
            answer = client.get(f"{base}/{path}")
            assert answer.status_code in (200, 204, 404), f"{path}: {answer.status_code}"
            found[path] = answer.json() if answer.content and answer.status_code == 200 else None
            return found[path]

        read("clusters")
        read("clusters/c/namespaceIsolationPolicies")
        read("brokers/configuration/values")
        for tenant in read("tenants"):
            read(f"tenants/{tenant}")
            for namespace in read(f"namespaces/{tenant}"):
                read(f"namespaces/{namespace}")  # its policies, with its bundles
                found[f"{namespace}/topics"] = sorted(read(f"namespaces/{namespace}/topics"))
    with closing(PulsarAdmin(cluster.settings(folder))) as admin:
        for namespace in [path for path in found if path.startswith("namespaces/t/")]:
            name = namespace.removeprefix("namespaces/").removesuffix("/topics")
            for range_ in admin.ranges(name):
                found[f"owner of {name}/{range_}"] = admin.owner(f"{name}/{range_}")
    return found


@pytest.mark.parametrize("manager", ["modular", pytest.param("extensible", marks=pytest.mark.slow)])
def test_one_command_shows_a_cluster_and_changes_nothing(
    manager: Manager, jdk: None, browser: Browser, tmp_path: Path
) -> None:
    """On a cluster of its own: brokers delete idle topics of other tests."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with pulsar_cluster(folder, manager, guarded=manager == "extensible") as cluster:
        watched(cluster, browser, tmp_path)


def watched(cluster: PulsarCluster, browser: Browser, tmp_path: Path) -> None:
    page = browser.new_context(**DESKTOP).new_page()  # type: ignore[arg-type]
    with skewed_users(cluster, tmp_path, "t/watched", bundles=16, shares=SHARES):
        before = snapshot(cluster, tmp_path)
        with Process(tmp_path / "watch.log", *words(cluster, tmp_path)) as watch:
            watch.wait_for("Spark takes")
            page.goto(address_in(watch.said))
            shows_all(page, cluster)
            waited_s = time.time() - first_pass_s(tmp_path)
            page.screenshot(path=tmp_path / "watch.png", full_page=True)
            # The page shows a round before the executor has read its commands.
            eventually(lambda: every_command_is_answered(tmp_path), LONG_MS / 1000)
            os.kill(watch.pid, signal.SIGINT)
            assert watch.ended() == 130, watch.said
        assert snapshot(cluster, tmp_path) == before
    print(f"the page had the first round {waited_s:.0f} s after the first pass")
    assert (tmp_path / "watch.png").stat().st_size > 10_000
    statuses = [decode_outcome(value).status for value in records(tmp_path, "outcomes")]
    assert statuses == ["dry-run"] * len(records(tmp_path, "commands"))
    # The job starts together with the collector, and waits until a broker has named its version.
    ran = (tmp_path / "watch/logs/run.log").read_text("utf-8")
    assert re.search(r"pulsar\.version: 4\.2 \(auto, by the telemetry: \S+, .*runs 4\.2", ran), ran


def every_command_is_answered(folder: Path) -> bool:
    """Rounds are a minute apart, so none follows at once. The first one may have no commands."""
    return len(records(folder, "commands")) == len(records(folder, "outcomes"))


def words(cluster: PulsarCluster, folder: Path) -> Sequence[object]:
    """As a person types it: the address of one broker, and the token where one is needed."""
    token = cluster.settings(folder).token_file
    return (
        "watch",
        *("--admin-url", f"http://{cluster.brokers[0]}"),
        *(("--token-file", token) if token else ()),
        *("--folder", folder / "watch", "--listen", "127.0.0.1:0"),
    )


def address_in(said: str) -> str:
    (address,) = re.findall(r"^page +(http://\S+)$", said, re.MULTILINE)
    return str(address)


def shows_all(page: Page, cluster: PulsarCluster) -> None:
    for broker in cluster.brokers:
        line = page.locator("#brokers").get_by_role("listitem", name=re.compile(re.escape(broker)))
        expect(line).to_be_visible(timeout=LONG_MS)
    expect(page.locator("#newest")).to_contain_text(re.compile(r"Round \d+ of epoch 1"))
    expect(page.locator("#state")).not_to_be_empty()


def first_pass_s(folder: Path) -> float:
    """When the first pass ended, in seconds since 1970."""
    sweep = next(value for value in records(folder, "telemetry") if b'"sweep"' in value)
    return int(json.loads(sweep)["ts"]) / 1000


def records(folder: Path, topic: str) -> list[bytes]:
    where = folder / "watch/topics" / topic
    return [record.value for record in FileTopicReader(where).read()[0]] if where.is_dir() else []
