"""The demo from end to end: the real job balances the modelled cluster, decides as the plain loop does, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 300


@dataclass(frozen=True)
class Running:
    """A demo that runs; its job leads a session of its own, to which everything belongs that the job starts."""

    demo: subprocess.Popen[str]

    def job(self) -> list[int]:
        """The job's process, as soon as there is one."""
        return [pid for pid, (_, parent, session) in processes().items() if parent == self.demo.pid and session == pid]

    def programs(self, session: int) -> list[str]:
        """Names of the session's programs, such as `java`."""
        return sorted(name for name, _, found in processes().values() if found == session)


def start(folder: Path, *arguments: str) -> Running:
    command = [sys.executable, "-m", "cli.main", "demo", "--out", str(folder), "--json", *arguments]
    return Running(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


def processes() -> dict[int, tuple[str, int, int]]:
    """Process → program, parent, session; zombies left out."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,sess=,stat=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 4) for line in listed.splitlines()]
    return {int(pid): (name, int(parent), int(session)) for pid, parent, session, state, name in rows if not state.startswith("Z")}


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    gives_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < gives_up, "it did not come about in time"
        time.sleep(0.25)


def topics(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(folder.glob("*/segment-*.jsonl"))}


def test_the_job_balances_the_cluster_as_the_plain_loop_does(tmp_path: Path) -> None:
    plain, spark = start(tmp_path / "plain", "--engine", "plain"), start(tmp_path / "spark")
    wait_for(lambda: bool(spark.job()), WAIT_SECONDS)
    (job,) = spark.job()
    expected, _ = plain.demo.communicate(timeout=WAIT_SECONDS)
    told, said = spark.demo.communicate(timeout=WAIT_SECONDS)
    assert spark.demo.returncode == 0, said + (tmp_path / "spark" / "job.log").read_text()
    result = json.loads(told)
    assert result["spread_last_points"] < result["threshold_points"] < result["spread_first_points"]
    assert result["rounds"] == json.loads(expected)["rounds"]
    assert topics(tmp_path / "spark") == topics(tmp_path / "plain")
    assert spark.programs(job) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    running = start(tmp_path / "demo")
    wait_for(lambda: bool(running.job()), WAIT_SECONDS)
    (job,) = running.job()
    wait_for(lambda: "java" in running.programs(job), WAIT_SECONDS)
    os.kill(running.demo.pid, number)
    told, said = running.demo.communicate(timeout=WAIT_SECONDS)
    assert running.demo.returncode == 130, said
    assert told == ""
    assert f"Stopped; what there is so far lies in {tmp_path / 'demo'}" in said
    assert "Traceback" not in said
    assert running.programs(job) == []
