"""The demo from end to end: the real job balances the modelled cluster, decides as the plain loop does, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 300


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cli.main", "demo", "--out", str(folder), "--json", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def topics(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(folder.glob("*/segment-*.jsonl"))}


def processes_of(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder; a JVM started by the job names its checkpoint."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def wait_until_gone(folder: Path, seconds: float = 10.0) -> list[str]:
    gives_up = time.monotonic() + seconds
    while (found := processes_of(folder)) and time.monotonic() < gives_up:
        time.sleep(0.05)
    return found


def test_the_job_balances_the_cluster_as_the_plain_loop_does(tmp_path: Path) -> None:
    plain, spark = start(tmp_path / "plain", "--engine", "plain"), start(tmp_path / "spark")
    expected, _ = plain.communicate(timeout=WAIT_SECONDS)
    told, said = spark.communicate(timeout=WAIT_SECONDS)
    assert spark.returncode == 0, said + (tmp_path / "spark" / "job.log").read_text()
    result = json.loads(told)
    assert result["spread_last_points"] < result["threshold_points"] < result["spread_first_points"]
    assert result["rounds"] == json.loads(expected)["rounds"]
    assert topics(tmp_path / "spark") == topics(tmp_path / "plain")
    assert wait_until_gone(tmp_path / "spark") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path / "demo")
    wait_for_java(tmp_path / "demo")
    os.kill(demo.pid, number)
    told, said = demo.communicate(timeout=WAIT_SECONDS)
    assert demo.returncode == 130, said
    assert told == ""
    assert f"Stopped; what there is so far lies in {tmp_path / 'demo'}" in said
    assert "Traceback" not in said
    assert wait_until_gone(tmp_path / "demo") == []


def wait_for_java(folder: Path) -> None:
    """Until the job has started Java, which is when stopping is hardest."""
    gives_up = time.monotonic() + WAIT_SECONDS
    while not any("java" in line for line in processes_of(folder)):
        assert time.monotonic() < gives_up, "the job started no Java"
        time.sleep(0.05)
