"""What the job needs of memory and of its checkpoint: resident sets of its processes, and the size
of what lies in Spark's state.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.figures import folder_bytes
from streaming.state.state_to_bytes import TABLES

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident MiB after a run. `workers`: all Python workers together, pages that they share
    counted in each.
    """

    brokers: int
    driver_mib: float
    java_mib: float
    workers_mib: float
    workers: int


@dataclass(frozen=True, slots=True)
class StateSize:
    """Bytes in Spark's state: bundle tables (older versions that still lie there included), and all
    files of the state's folder.
    """

    brokers: int
    bundles: int
    table_bytes: int
    file_bytes: int

    @property
    def per_bundle(self) -> float:
        return self.table_bytes / self.bundles


def memory(spark: SparkSession, brokers: int, driver: int) -> Memory:
    """Of the process `driver` (this one), its Java and the workers below that."""
    children, resident = _processes()
    java = int(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    workers = [pid for pid in _below(java, children) if pid != java]
    return Memory(
        brokers,
        resident[driver] / _MIB,
        resident[java] / _MIB,
        sum(resident[pid] for pid in workers) / _MIB,
        max(0, len(workers) - 1),
    )


def state_size(spark: SparkSession, checkpoint: Path, brokers: int, bundles: int) -> StateSize:
    """As of the last committed micro-batch. `bundles`: of all brokers together."""
    _ = spark.streams.active  # starts what the reader of state needs
    rows = (
        spark.read.format("statestore")
        .option("path", str(checkpoint))
        .option("stateVarName", "state")
        .load()
    )
    tables = (
        rows.where(F.col("user_map_key.name").startswith(f"{TABLES}/"))
        .select(F.sum(F.octet_length("user_map_value.packed")))
        .first()
    )
    assert tables is not None
    return StateSize(brokers, bundles, int(tables[0] or 0), folder_bytes(checkpoint / "state"))


def _processes() -> tuple[dict[int, list[int]], dict[int, int]]:
    """Children by process, and resident bytes."""
    told = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for line in told.splitlines():
        pid, parent, kib = map(int, line.split())
        children.setdefault(parent, []).append(pid)
        resident[pid] = kib * 1024
    return children, resident


def _below(pid: int, children: dict[int, list[int]]) -> list[int]:
    return [pid, *(one for child in children.get(pid, ()) for one in _below(child, children))]
