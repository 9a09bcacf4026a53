"""The job as a process: what signals do to it, what it prints, and what it says where Java is
missing.
"""

import os
import signal
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from tests.spark.workshop import Workshop
from tools.processes.process import Process
from tools.processes.real_job import recording

pytestmark = [pytest.mark.servers, pytest.mark.spark]


class JobProcess(Process):
    """`tests.spark.a_job` in a process group of its own."""

    def __init__(
        self, workshop: Workshop, records: int, environment: Mapping[str, str] = {}
    ) -> None:
        self._workshop, log = workshop, workshop.folder / "job.log"
        words = (workshop.folder, records)
        super().__init__(log, *words, program="tests.spark.a_job", environment=environment)

    def signal_group(self, number: int) -> None:
        """As a terminal does on Ctrl-C, and a service manager that stops a whole group."""
        os.killpg(self.pid, number)

    def wait_for_rounds(self, rounds: int) -> None:
        self.wait_until(lambda: len(self._workshop.published()["rounds"]) >= rounds)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_after_the_batch_it_is_working_on(
    spark: SparkSession, workshop: Workshop, number: signal.Signals
) -> None:
    workshop.put(recording("modular-broker-killed"))
    with JobProcess(workshop, records=20) as process:
        process.wait_for_rounds(1)
        process.signal_group(number)
        assert process.ended() == 0
    rounds = workshop.published()["rounds"]
    assert rounds == workshop.expected()["rounds"][: len(rounds)]
    said = [line for line in process.said.splitlines() if not line.startswith("batch ")]
    assert said == [f"{number.name} {len(rounds)}"]
    workshop.drain(spark)
    assert workshop.published() == workshop.expected()


def test_without_java_it_says_what_to_install(workshop: Workshop) -> None:
    with JobProcess(workshop, records=20, environment={"JAVA_HOME": "/nowhere"}) as process:
        assert process.ended() == 1
    assert "SparkStartError: Spark did not start" in process.said
    assert "/nowhere/bin/java: No such file or directory" in process.said
    assert "check that Java 17 or newer is installed" in process.said
    assert "Traceback" not in process.said
