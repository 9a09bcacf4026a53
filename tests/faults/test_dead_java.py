"""Spark's Java process killed under `run`: one sentence with the cause and the next step, exit code
1, and the next start goes on.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from tests.spark.test_process import JobProcess
from tests.spark.workshop import Workshop, uneven
from tests.topic_uris import topic_settings
from tools.processes.process import Process
from tools.processes.real_job import EAGER, TOPICS

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]
_OF_A_TRACE = re.compile(
    r"Traceback|^\s+at [\w.$]+\(|^\s+File \"|py4j|Connection refused|Error while", re.MULTILINE
)


def test_a_java_that_was_killed_is_one_sentence(tmp_path: Path) -> None:
    settings = {
        **topic_settings({name: (tmp_path / name).as_uri() for name in TOPICS}),
        **dict(assignment.split("=") for assignment in EAGER),
        "job.checkpoint": tmp_path / "checkpoint",
    }
    with FileTopicWriter(tmp_path / "telemetry") as writer:
        writer.append(uneven(4))
    with Process(tmp_path / "job.log", "run", settings=settings) as job:
        job.wait_for("batch 0:", 600)
        before = job.said
        os.kill(java_of(job.pid), signal.SIGKILL)
        assert job.ended() == 1
        (said,) = job.said[len(before) :].splitlines()
        told = "start the job again, it continues where it stopped"
        assert f"error: Spark's Java process was killed by SIGKILL; {told}" in said
        assert _OF_A_TRACE.findall(job.said) == []


def test_what_a_killed_job_leaves_on_the_disk_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    """As when memory runs out: Java can delete neither the copy of the state nor its libraries."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    workshop = Workshop(tmp_path / "workshop")
    workshop.put(uneven(6))
    environment = {"TMPDIR": str(temporary)}
    with JobProcess(workshop, 1000, environment) as job:
        job.wait_for_rounds(4)
        java = java_of(job.pid)
        job.signal_group(signal.SIGSTOP)
        os.kill(java, signal.SIGKILL)
        job.signal_group(signal.SIGKILL)
        job.ended()
    (left,) = temporary.iterdir()
    ours = "pulsar-rebalancer-job-*"
    assert [*left.rglob("StateStoreId*")] != []
    assert [*left.glob("librocksdbjni*")] != []
    with JobProcess(workshop, 1000, environment) as again:
        again.wait_until(lambda: {left} != {*temporary.glob(ours)} != set())
        (new,) = temporary.glob(ours)
        workshop.put(uneven(12)[len(uneven(6)) :])
        again.wait_for_rounds(10)
        assert [*new.rglob("StateStoreId*")] != []
        again.signal_group(signal.SIGTERM)
        assert again.ended() == 0
    assert list(temporary.iterdir()) == []


def java_of(pid: int) -> int:
    """The Java process that this one has started."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
    ).stdout
    found = [
        int(one)
        for one, parent, name in map(str.split, listed.splitlines())
        if int(parent) == pid and name == "java"
    ]
    assert len(found) == 1, listed
    return found[0]
