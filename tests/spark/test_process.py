"""The job as a process: what signals do to it, what it prints, and what it says where Java is
missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.checkpoint.guard_file import GUARD
from streaming.job import run_job
from tests.spark.workshop import Workshop, eager, recording
from tools.processes.real_job import environment_of_a_short_run

pytestmark = [pytest.mark.servers, pytest.mark.spark]
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it printed."""

    code: int
    out: str
    err: str


class JobProcess:
    """`tests.spark.a_job` in a process group of its own, ended at the latest with the block."""

    def __init__(
        self, workshop: Workshop, records: int, environment: Mapping[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "tests.spark.a_job", str(workshop.folder), str(records)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment_of_a_short_run(), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal_group(self, number: int) -> None:
        """As a terminal does on Ctrl-C, and a service manager that stops a whole group."""
        os.killpg(self._process.pid, number)

    def ended(self, seconds: float = 300) -> Ended:
        out, err = self._process.communicate(timeout=seconds)
        return Ended(self._process.returncode, out, err)

    def wait_for_rounds(self, workshop: Workshop, rounds: int) -> None:
        self.wait_for(lambda: len(workshop.published()["rounds"]) >= rounds)

    def wait_for(self, happened: Callable[[], bool], seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < deadline, "it does not happen"
            time.sleep(0.05)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_after_the_batch_it_is_working_on(
    spark: SparkSession, workshop: Workshop, number: signal.Signals
) -> None:
    workshop.put(recording("modular-broker-killed"))
    with JobProcess(workshop, records=20) as process:
        process.wait_for_rounds(workshop, 1)
        process.signal_group(number)
        ended = process.ended()
    published = workshop.published()
    assert (ended.code, ended.out) == (0, f"{number.name} {len(published['rounds'])}\n")
    assert published["rounds"] == workshop.expected(eager())["rounds"][: len(published["rounds"])]
    assert [line for line in ended.err.splitlines() if not line.startswith("batch ")] == []
    run_job(workshop.job(), eager(), drain=True, session=spark)
    assert workshop.published() == workshop.expected(eager())


@pytest.mark.slow
def test_a_killed_job_leaves_a_checkpoint_that_goes_on_at_once(
    spark: SparkSession, workshop: Workshop
) -> None:
    """Its Java process ends a moment later; until then the next job waits instead of sharing the
    checkpoint.
    """
    workshop.put(recording("modular-broker-killed"))
    with JobProcess(workshop, records=20) as process:
        process.wait_for_rounds(workshop, 1)
        process.signal_group(signal.SIGKILL)
        assert process.ended().code == -signal.SIGKILL
    run_job(workshop.job(), eager(), drain=True, session=spark)
    published, expected = workshop.published(), workshop.expected(eager())
    assert {kind: list(dict.fromkeys(values)) for kind, values in published.items()} == expected


def test_without_java_it_says_what_to_install(workshop: Workshop) -> None:
    with JobProcess(workshop, records=20, environment={"JAVA_HOME": "/nowhere"}) as process:
        ended = process.ended()
    assert ended.code == 1
    assert "SparkStartError: Spark did not start" in ended.err
    assert "/nowhere/bin/java: No such file or directory" in ended.err
    assert "check that Java 17 or newer is installed" in ended.err
    assert "Traceback" not in ended.err


def test_a_refused_checkpoint_ends_it_with_a_sentence(workshop: Workshop) -> None:
    workshop.checkpoint.mkdir()
    (workshop.checkpoint / GUARD).write_text("{")
    with JobProcess(workshop, records=20) as process:
        ended = process.ended()
    assert ended.code == 1
    assert ended.err.startswith("StateVersionError: ")
    assert "name a new folder as job.checkpoint" in ended.err
