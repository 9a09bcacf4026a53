"""Reads the state of each broker from a checkpoint, and what is left of forgotten clusters, with
Spark's state reader; no job needs to run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from strategies.cluster.state import ClusterState
from strategies.cluster.store import BrokerState
from strategies.errors import StateVersionError
from strategies.fold.vanished_clusters import is_forgotten
from streaming.checkpoint.guard import SPARK_LOG
from streaming.checkpoint.guard_file import GUARD, STATE_FORMAT, read_guard
from streaming.checkpoint_state.checkpoint_rows import spark_for, state_rows
from streaming.state.cluster_bytes import from_bytes
from streaming.state.compacted_log import LogEntry
from streaming.state.rows import (
    BROKERS,
    CLUSTERS,
    HEAD,
    TABLES,
    Head,
    named_row,
    unpack_brokers,
    unpack_bytes,
    unpack_head,
)

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class BrokerStateRow:
    """One broker of one cluster. `round`: the cluster's last closed round; `age_ms`: of its newest
    report, by the cluster's own clock.

    `ewma`, `placement_ewma` (fractions), `throughput_ewma` (bytes/s), `gave_at_ms`, hits: None if
    no strategy keeps such memory of the broker. `usage_average` (fraction), `throughput_average`
    (bytes/s): the broker's own averages, None in reports without them.
    """

    cluster: str
    broker: str
    round: int
    reported_at_ms: int
    age_ms: int | None
    sampled_at_ms: int
    ewma: float | None
    placement_ewma: float | None
    hit_high: int | None
    hit_low: int | None
    throughput_ewma: float | None
    gave_at_ms: int | None
    usage_average: float | None
    throughput_average: float | None
    bundles: int
    msg_rate: float
    msg_throughput: float


@dataclass(frozen=True, slots=True)
class ForgottenRow:
    """A cluster whose rows have left the state. `round`: its last one, after which its numbers go
    on; `newest_ms`: the cluster's time, since the epoch.
    """

    cluster: str
    round: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """Brokers of all clusters, by cluster and order of first appearance, and what is left of
    clusters that vanished, by name.
    """

    brokers: list[BrokerStateRow]
    forgotten: list[ForgottenRow]


def read_state(checkpoint: str | Path, *, session: SparkSession | None = None) -> CheckpointState:
    """The state as of the last committed micro-batch; empty before the first.

    Raises StateVersionError for a folder that is no checkpoint of this program and version,
    SparkStartError.
    """
    folder = _folder(checkpoint)
    if not (folder / GUARD).exists():
        raise StateVersionError(
            f"{folder} is not a checkpoint of this program: it has no {GUARD}; name the "
            "checkpoint of a job that has run"
        )
    guard = read_guard(folder)
    if guard.state != STATE_FORMAT:
        raise StateVersionError(
            f"the state in {folder} was written by version {guard.product}: read it with that "
            "version"
        )
    if not any(folder.glob("commits/[0-9]*")):
        return CheckpointState([], [])
    with spark_for(folder, session) as spark:
        return _read(spark, folder)


def _folder(checkpoint: str | Path) -> Path:
    text = str(checkpoint)
    return Path(unquote(urlsplit(text).path) if text.startswith("file:") else text).absolute()


def _read(spark: SparkSession, folder: Path) -> CheckpointState:
    try:
        # Bundle tables are most of the state, and this reader does not need them.
        of_tables = F.col("user_map_key.name").startswith(f"{TABLES}/")
        rows = state_rows(spark, folder).where(~of_tables).collect()
    except (PySparkException, Py4JError) as error:
        raise StateVersionError(
            f"the state in {folder} cannot be read: is it a whole checkpoint? If its job is "
            "running, try again. "
            f"Spark's messages are in {folder / SPARK_LOG}"
        ) from error
    shards: defaultdict[int, dict[tuple[str, int], bytes]] = defaultdict(dict)
    for row in rows:
        name = named_row(row.user_map_key.name)
        shards[row.key.shard][name] = bytes(row.user_map_value.packed)
    return state_of(shards.values())


def state_of(shards: Iterable[Mapping[tuple[str, int], bytes]]) -> CheckpointState:
    """The state in rows. `shards`: of each, part and entry → value of that row."""
    brokers: list[tuple[tuple[str, int], BrokerStateRow]] = []
    forgotten: list[ForgottenRow] = []
    for packed in shards:
        head = unpack_head(packed[HEAD, 0])
        clusters = _clusters(head, packed)
        brokers += _broker_rows(head, packed, clusters)
        forgotten += [
            ForgottenRow(name, state.round, state.clock.now_ms)
            for name, state in clusters.items()
            if state.clock is not None and is_forgotten(state)
        ]
    return CheckpointState(
        [row for _, row in sorted(brokers, key=itemgetter(0))],
        sorted(forgotten, key=attrgetter("cluster")),
    )


def _clusters(head: Head, packed: Mapping[tuple[str, int], bytes]) -> dict[str, ClusterState]:
    newest = _newest(unpack_bytes(packed[CLUSTERS, entry]) for entry in head.clusters)
    return {cluster: from_bytes(fields) for cluster, fields in newest.items()}


def _broker_rows(
    head: Head, packed: Mapping[tuple[str, int], bytes], clusters: Mapping[str, ClusterState]
) -> Iterator[tuple[tuple[str, int], BrokerStateRow]]:
    """Rows with their place: cluster, order of first appearance."""
    newest = _newest(unpack_brokers(packed[BROKERS, entry]) for entry in head.brokers)
    for cluster, brokers in newest.items():
        for broker in brokers.values():
            yield (
                (cluster, broker.order),
                _row(cluster, clusters.get(cluster, ClusterState()), broker),
            )


def _newest(entries: Iterable[LogEntry[V]]) -> dict[str, dict[str, V]]:
    """Cluster → name → newest value. `entries`: oldest first."""
    found: defaultdict[str, dict[str, V | None]] = defaultdict(dict)
    for entry in entries:
        for cluster, some in entry.items():
            found[cluster] |= some
    there = {
        cluster: {name: value for name, value in some.items() if value is not None}
        for cluster, some in found.items()
    }
    return {cluster: some for cluster, some in there.items() if some}


def _row(cluster: str, state: ClusterState, broker: BrokerState) -> BrokerStateRow:
    newest = max(broker.reported_at_ms, broker.bundles_at_ms)
    traffic, memory = broker.figures.traffic, broker.memory
    return BrokerStateRow(
        cluster=cluster,
        broker=broker.broker,
        round=state.round,
        reported_at_ms=newest,
        age_ms=None if state.clock is None else state.clock.now_ms - newest,
        sampled_at_ms=broker.sampled_at_ms,
        ewma=memory.ewma,
        placement_ewma=memory.placement_ewma,
        hit_high=memory.hit_high,
        hit_low=memory.hit_low,
        throughput_ewma=memory.throughput_ewma,
        gave_at_ms=memory.gave_at_ms,
        usage_average=broker.figures.usage_average,
        throughput_average=broker.figures.throughput_average,
        bundles=broker.figures.bundle_count,
        msg_rate=traffic.msg_rate,
        msg_throughput=traffic.msg_throughput,
    )
