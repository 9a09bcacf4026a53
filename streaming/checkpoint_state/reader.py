"""Reads the state of every cluster in a checkpoint with Spark's state reader, as rows for people:
of each broker, and of forgotten clusters. No job needs to run.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import MapState

from strategies.cluster.cluster_state import BrokerState, ClusterState
from strategies.errors import StateVersionError
from strategies.fold.time_jumps_and_forgetting import is_forgotten
from streaming.checkpoint.guard import SPARK_LOG
from streaming.checkpoint.remembered_and_changed_settings import GUARD, STATE_FORMAT, read_guard
from streaming.settings import JobSettings, local_path
from streaming.spark_session import start_session, stop_session
from streaming.state.state_to_bytes import HEAD, TABLES, row_name, unpack_head
from streaming.state.store import Row, Rows, ShardStore, SparkStore


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
    """Returns the state as of the last committed micro-batch; empty before the first.

    Raises StateVersionError for a folder that is no checkpoint of this program and version,
    SparkStartError.
    """
    folder = local_path(str(checkpoint)) or Path(checkpoint).absolute()
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
    try:
        with spark_for(folder, session) as spark:
            shards = read_shards(spark, folder, tables=False)
    except (PySparkException, Py4JError) as error:
        raise StateVersionError(
            f"the state in {folder} cannot be read: is it a whole checkpoint? If its job is "
            "running, try again. "
            f"Spark's messages are in {folder / SPARK_LOG}"
        ) from error
    return state_of(clusters_of(shards, tables=False))


def state_of(clusters: Mapping[str, SparkStore]) -> CheckpointState:
    """Returns the rows of these clusters."""
    states = {name: clusters[name].get_cluster() for name in sorted(clusters)}
    brokers = [
        _row(name, state, broker)
        for name, state in states.items()
        for broker in sorted(clusters[name].brokers(), key=attrgetter("order"))
    ]
    forgotten = [
        ForgottenRow(name, state.round, state.clock.now_ms)
        for name, state in states.items()
        if state.clock is not None and is_forgotten(state)
    ]
    return CheckpointState(brokers, forgotten)


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


@dataclass
class MemoryVariable(MapState):
    """A state variable in memory: the rows of one shard, by name."""

    rows: dict[Row, Row] = field(default_factory=dict)

    def getValue(self, key: Row) -> Row | None:
        return self.rows.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        self.rows[key] = value

    def removeKey(self, key: Row) -> None:
        self.rows.pop(key, None)


#: Shard → its rows.
Shards = Mapping[int, MemoryVariable]


@contextmanager
def spark_for(folder: Path, session: SparkSession | None) -> Iterator[SparkSession]:
    """The session, or one of its own that logs to the checkpoint. Raises SparkStartError."""
    if session is not None:
        yield session
        return
    ours = start_session(JobSettings(), folder / SPARK_LOG, short=True)
    try:
        yield ours
    finally:
        stop_session(ours)


def read_shards(spark: SparkSession, folder: Path, *, tables: bool = True) -> Shards:
    """Returns the rows as of the last committed micro-batch. `tables`: also those of bundles, which
    are most of them. Raises PySparkException.
    """
    # Accessing `streams` starts Spark's state coordinator, which the state reader needs but does
    # not start itself.
    _ = spark.streams.active
    state = spark.read.format("statestore").option("path", f"file://{folder}")
    rows = state.option("stateVarName", "state").load()
    if not tables:
        rows = rows.where(~F.col("user_map_key.name").startswith(f"{TABLES}/"))
    shards: defaultdict[int, MemoryVariable] = defaultdict(MemoryVariable)
    for row in rows.toLocalIterator():
        shards[row.key.shard].updateValue(
            (row.user_map_key.name,), (bytes(row.user_map_value.packed),)
        )
    return shards


def clusters_of(shards: Shards, *, tables: bool = True) -> dict[str, SparkStore]:
    """Returns the state of every cluster. `tables`: see `read_shards`. Raises StateVersionError for
    rows that are not whole.
    """
    stores: dict[str, SparkStore] = {}
    for variable in shards.values():
        (packed,) = variable.rows[row_name(HEAD),]
        head = unpack_head(packed)
        if not tables:
            head = head._replace(tables=())
        store = ShardStore()
        store.follow(head, Rows(variable))
        stores |= {name: store.cluster(name) for name in store.clusters()}
    return stores
