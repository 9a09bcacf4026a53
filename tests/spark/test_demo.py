"""The demo from end to end: the real job balances the modelled cluster, decides as the plain loop
does, and leaves no process behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 240


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "pulsar_rebalancer.cli.main",
        "demo",
        "--out",
        str(folder),
        "--json",
        *arguments,
    ]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def family(ancestor: int) -> dict[int, str]:
    """Everything a process has started, directly or not: process → program."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True
    ).stdout
    rows = [
        (int(pid), int(parent), name)
        for pid, parent, state, name in (line.split(None, 3) for line in listed.splitlines())
        if state[0] != "Z"
    ]
    found: dict[int, str] = {}
    while more := {
        pid: name for pid, parent, name in rows if parent in (ancestor, *found) and pid not in found
    }:
        found |= more
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return listed.strip() == "" or listed.startswith("Z")


def topics(folder: Path) -> dict[str, bytes]:
    return {
        path.parent.name: path.read_bytes() for path in sorted(folder.glob("*/segment-*.jsonl"))
    }


def test_the_job_balances_the_cluster_as_the_plain_loop_does(tmp_path: Path) -> None:
    plain, spark = start(tmp_path / "plain", "--engine", "plain"), start(tmp_path / "spark")
    eventually(lambda: "java" in family(spark.pid).values(), WAIT_SECONDS)
    started = family(spark.pid)
    expected, _ = plain.communicate(timeout=WAIT_SECONDS)
    told, said = spark.communicate(timeout=WAIT_SECONDS)
    assert spark.returncode == 0, said + (tmp_path / "spark" / "job.log").read_text()
    result = json.loads(told)
    assert result["balanced"]
    assert result["spread_last_points"] < 10 < result["spread_first_points"]
    assert result["proof"].startswith("Proven: ")
    assert result["rounds"] == json.loads(expected)["rounds"]
    assert topics(tmp_path / "spark") == topics(tmp_path / "plain")
    eventually(lambda: all(is_gone(pid) for pid in started), WAIT_SECONDS)


def test_a_demo_that_is_stopped_leaves_nothing_running(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo")
    eventually(lambda: "java" in family(demo.pid).values(), WAIT_SECONDS)
    started = family(demo.pid)
    os.kill(demo.pid, signal.SIGINT)
    told, said = demo.communicate(timeout=WAIT_SECONDS)
    assert demo.returncode == 130, said
    assert told == ""
    assert f"Stopped; the results so far are in {tmp_path / 'demo'}" in said
    assert "Traceback" not in said
    eventually(lambda: all(is_gone(pid) for pid in started), WAIT_SECONDS)
