"""`rebalancer serve` as a process: it says where it listens, and ends when it is asked to."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.live_topics import MadeUpCluster, publish, settings_of
from tests.waiting import eventually

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_cleanly_with_viewers_connected(
    tmp_path: Path, number: int, code: int
) -> None:
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    given = ["serve.listen=127.0.0.1:0", "metrics.listen=127.0.0.1:0", *settings_of(tmp_path)]
    words = [word for setting in given for word in ("--set", setting)]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_rebalancer", "serve", *words],
            cwd=ROOT,
            stderr=out,
            stdout=out,
        )
    try:
        eventually(lambda: " page: http" in log.read_text(), 60, log.read_text)
        page, metrics = address(log, " page: "), address(log, " metrics: ")
        eventually(lambda: httpx.get(metrics.replace("metrics", "readyz")).status_code == 200, 60)
        with httpx.stream("GET", f"{page}api/v1/events", timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            text = httpx.get(metrics).text
            process.send_signal(number)
            assert process.wait(30) == code
    finally:
        process.kill()
        process.wait()

    assert 'pulsar_rebalancer_page_records{topic="rounds"} 60.0' in text
    assert 'pulsar_rebalancer_page_last_round_timestamp_seconds{cluster="production"} 1.' in text
    assert 'pulsar_rebalancer_page_requests_total{route="/api/v1/events"' not in text
    assert f"stopped ({signal.Signals(number).name})" in log.read_text()
    assert "Traceback" not in log.read_text()


def address(log: Path, before: str) -> str:
    """The URL behind these words in the log."""
    return log.read_text().partition(before)[2].split()[0]
