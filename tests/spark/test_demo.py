"""The demo from end to end: the real job balances the modelled cluster, decides as the plain loop
does, and leaves no process behind.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tools.processes.real_job import MARK, marked
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 240


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A demo that carries the mark of its folder, as all processes that it starts."""
    words = ("-m", "pulsar_rebalancer.cli.main", "demo", "--out", str(folder), "--json")
    return subprocess.Popen(
        [sys.executable, *words, *arguments],
        cwd=ROOT,
        env=os.environ | {MARK: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_java(folder: Path) -> bool:
    """Whether the demo has started Spark."""
    programs = list[str]()
    for pid in marked(str(folder)):
        with suppress(OSError):
            programs.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return "java" in programs


def topics(folder: Path) -> dict[str, bytes]:
    return {
        path.parent.name: path.read_bytes() for path in sorted(folder.glob("*/segment-*.jsonl"))
    }


def test_the_job_balances_the_cluster_as_the_plain_loop_does(tmp_path: Path) -> None:
    plain, spark = start(tmp_path / "plain", "--engine", "plain"), start(tmp_path / "spark")
    eventually(lambda: has_java(tmp_path / "spark"), WAIT_SECONDS)
    expected, _ = plain.communicate(timeout=WAIT_SECONDS)
    told, said = spark.communicate(timeout=WAIT_SECONDS)
    assert spark.returncode == 0, said + (tmp_path / "spark" / "job.log").read_text()
    result = json.loads(told)
    assert result["balanced"]
    assert result["spread_last_points"] < 10 < result["spread_first_points"]
    assert result["proof"].startswith("Proven: ")
    assert result["rounds"] == json.loads(expected)["rounds"]
    assert topics(tmp_path / "spark") == topics(tmp_path / "plain")
    eventually(lambda: not marked(str(tmp_path / "spark")), WAIT_SECONDS)


def test_a_demo_that_is_stopped_leaves_nothing_running(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo")
    eventually(lambda: has_java(tmp_path / "demo"), WAIT_SECONDS)
    os.kill(demo.pid, signal.SIGINT)
    told, said = demo.communicate(timeout=WAIT_SECONDS)
    assert demo.returncode == 130, said
    assert told == ""
    assert f"Stopped; the results so far are in {tmp_path / 'demo'}" in said
    assert "Traceback" not in said
    eventually(lambda: not marked(str(tmp_path / "demo")), WAIT_SECONDS)
