"""Records made to cost, on Kafka: the job and the executor go on, reject each, and need hardly more
memory than without them.

Memory is the largest sum over all processes at one moment, looked at every 50 ms, and not the sum
of each process's own peak: Java and the worker have theirs at different times.
"""

import sys
from pathlib import Path

import pytest

from tools.hostile import Result, backlog, executor, job, many_rounds
from tools.servers.kafka_broker import KafkaBroker

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

_MOST_MORE = 300 * 10**6


def check(found: Result) -> None:
    assert found.faults == ()
    assert found.peak - found.quiet <= _MOST_MORE, (
        f"{found.peak / 1e6:.0f} MB, {found.quiet / 1e6:.0f} MB without hostile records"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("count", "seed"), [(150, 1), (2_000, 7)])
def test_the_job_goes_on_over_hostile_records(
    own_kafka: KafkaBroker, tmp_path: Path, count: int, seed: int
) -> None:
    check(job(own_kafka, tmp_path, count, seed))


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_backlog_of_large_reports_takes_disk_not_memory(
    own_kafka: KafkaBroker, tmp_path: Path, partitions: int
) -> None:
    check(backlog(own_kafka, tmp_path, 60, partitions))


@pytest.mark.parametrize(
    ("count", "seed"), [(50, 1), pytest.param(2_000, 7, marks=pytest.mark.slow)]
)
def test_the_executor_goes_on_over_hostile_records(
    own_kafka: KafkaBroker, tmp_path: Path, count: int, seed: int
) -> None:
    check(executor(own_kafka, tmp_path, count, seed))


@pytest.mark.slow
def test_the_executor_starts_beside_a_thousand_rounds_of_a_megabyte(
    own_kafka: KafkaBroker, tmp_path: Path
) -> None:
    check(many_rounds(own_kafka, tmp_path, 1_000))
