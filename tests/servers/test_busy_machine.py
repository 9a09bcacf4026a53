"""A job starts on a machine where Python workers need longer for their imports than the 10 s that
Spark gives them, and names each attempt. Nothing is timed: it only has to start.

With 30 busy processes on two cores a process gets a sixteenth of a core: minutes for Java, 10 s or
more for PySpark.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.outputs.counts_of_micro_batch import KINDS
from tests.spark.workshop import Workshop
from tests.topic_uris import topic_settings
from tools.processes.process import Process
from tools.processes.real_job import recording
from tools.servers.pulsar_cluster import PulsarCluster

pytestmark = [pytest.mark.servers, pytest.mark.spark]
BUSY = 30
LONG_S = 1_800
#: In place of a module of Python that PySpark imports: workers wait for longer than Java.
SLOW_IMPORT = """
import importlib.util, os, sys, sysconfig, time
if "PYTHON_WORKER_FACTORY_SECRET" in os.environ:
    time.sleep(12)
path = os.path.join(sysconfig.get_path("stdlib"), "pstats.py")
spec = importlib.util.spec_from_file_location("pstats", path)
sys.modules["pstats"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["pstats"])
"""


def test_workers_that_import_for_longer_than_java_waits_start_at_the_first_attempt(
    tmp_path: Path,
) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/pstats.py").write_text(SLOW_IMPORT)
    workshop = Workshop(tmp_path)
    workshop.put(recording("modular-broker-joins")[:40])
    topics = topic_settings({name: workshop.uri(name) for name in ("telemetry", *KINDS)})
    words = ("run", "--drain", "--checkpoint", workshop.checkpoint)
    slow = {"PYTHONPATH": str(tmp_path / "slow")}
    with Process(tmp_path / "run.log", *words, settings=topics, environment=slow) as job:
        assert job.ended(LONG_S) == 0, job.said
    assert re.findall(r" start: (.*attempt.*)$", job.said, re.MULTILINE) == ["attempt 1"]
    assert len(workshop.published()["rounds"]) > 0


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


@pytest.mark.slow
@pytest.mark.parametrize("of", ["file topics", "real brokers"])
def test_the_job_starts(of: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    words: list[object] = ["--folder", tmp_path / "watch", "--listen", "127.0.0.1:0"]
    if of == "file topics":
        words += ["--demo"]
    else:
        pulsar: PulsarCluster = request.getfixturevalue("pulsar")
        words += ["--admin-url", f"http://{pulsar.brokers[0]}"]
    with Process(tmp_path / "watch.log", "watch", *words) as watch:
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
