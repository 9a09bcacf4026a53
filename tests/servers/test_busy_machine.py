"""On a machine with 30 busy processes a watch starts its job, and names each attempt on its screen.

With two cores a process gets a sixteenth of a core then, so that Spark's 10 s for a Python worker
are over before it has imported PySpark. Nothing is timed: it only has to start.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.process import Process
from tests.servers.pulsar_cluster import PulsarCluster

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
BUSY = 30
LONG_S = 1_200


@contextmanager
def busy_machine() -> Iterator[None]:
    """Each process has a session of its own: Linux shares a core between sessions first."""
    program = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(program, start_new_session=True) for _ in range(BUSY)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_the_job_on_file_topics_starts(tmp_path: Path) -> None:
    starts(tmp_path, "--demo")


def test_the_job_of_real_brokers_starts(pulsar: PulsarCluster, tmp_path: Path) -> None:
    starts(tmp_path, "--admin-url", f"http://{pulsar.brokers[0]}")


def starts(tmp_path: Path, *words: str) -> None:
    folder: Sequence[object] = ("--folder", tmp_path / "watch", "--listen", "127.0.0.1:0")
    with Process(tmp_path / "watch.log", "watch", *words, *folder) as watch:
        with busy_machine():
            watch.wait_for(", round 1:", LONG_S)
        os.kill(watch.pid, signal.SIGINT)
        assert watch.ended() == 130, watch.said
    ran = (tmp_path / "watch/logs/run.log").read_text("utf-8")
    attempts = re.findall(r" start: (.*attempt \d.*)$", ran, re.MULTILINE)
    shown = re.findall(r"  the Spark job: (.*attempt \d.*)$", watch.said, re.MULTILINE)
    assert shown[:1] == ["attempt 1"]
    assert shown == attempts
    assert re.search(r" start: the job runs after \d+ s$", ran, re.MULTILINE), ran
    print("\n".join(line for line in ran.splitlines() if " start: " in line))
