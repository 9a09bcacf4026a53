"""Spark's Java process keeps no connection to a Python worker open when a task has finished."""

import re
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.workshop import Workshop, eager
from tools.processes.real_job import recording

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the connections in /proc"),
]
#: Of TCP in /proc/net: the other side has closed the connection, this one has not.
_CLOSE_WAIT = "08"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def half_closed(pid: int) -> int:
    """Connections that the process has not closed although the other side has."""
    links = (str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink())
    own = {found[1] for link in links if (found := _SOCKET.fullmatch(link))}
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text("utf-8").splitlines()[1:]
    ]
    return sum(line[3] == _CLOSE_WAIT and line[9] in own for line in lines)


@pytest.mark.parametrize("partitions", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_java_keeps_no_connection_of_tasks_that_have_finished(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """One open file for each micro-batch would end a job after weeks."""
    workshop = Workshop(tmp_path)
    workshop.put(recording("modular-broker-joins")[:60])
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    before = half_closed(gateway.proc.pid)
    told = workshop.drain(
        spark, eager("avg"), max_records_per_batch=6, shuffle_partitions=partitions
    )
    assert len(told.progress) == 10
    # One each is allowed for the begin of the query and for a worker that Spark ends by itself.
    assert half_closed(gateway.proc.pid) - before <= 3
    assert workshop.published() == workshop.expected(eager("avg"))
