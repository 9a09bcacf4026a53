"""Copies a checkpoint into one with another number of state partitions, for a stopped job.

Spark itself can only move keys as they are to other partitions; here a cluster gets another shard,
and so another key. So a query with the job's operator writes the new rows as its only micro-batch,
whose source offsets are then replaced by those of the old checkpoint.
"""

import ctypes
import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from strategies.errors import StateVersionError
from streaming.checkpoint.guard import SPARK_LOG, guarded
from streaming.checkpoint.remembered_and_changed_settings import (
    GUARD,
    PARTITIONS,
    STATE_FORMAT,
    Guard,
    read_guard,
    write_guard,
)
from streaming.checkpoint.spark_checkpoint_files import committed_batch, name_schemas, places_beside
from streaming.checkpoint_state.reader import (
    MemoryVariable,
    Shards,
    clusters_of,
    read_shards,
    spark_for,
)
from streaming.processor import OUTPUT
from streaming.settings import JobSettings
from streaming.spark_session import query_settings
from streaming.state.shards import shard_keys, shard_of
from streaming.state.state_to_bytes import to_bytes
from streaming.state.store import STATE_KEY, STATE_VALUE, Rows, ShardStore, SparkStore

_COLUMNS = StructType(
    [
        StructField("shard", IntegerType()),
        StructField("name", StringType()),
        StructField("packed", BinaryType()),
    ]
)
#: Of Linux's renameat2.
_HERE, _EXCHANGE = -100, 2
_UNFINISHED = (
    "contains an unfinished micro-batch, which must be repeated unchanged: run once with the "
    "number of partitions that it has and --drain, then try again"
)
_NO_STATE = "has no state yet: name a new folder as job.checkpoint"


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The result. `clusters`: number of clusters; `aside`: where the old checkpoint is now; None if
    it is where it was.
    """

    clusters: int
    folder: Path
    aside: Path | None


def repartition(
    folder: Path, partitions: int, to: Path | None = None, *, session: SparkSession | None = None
) -> Repartitioned:
    """Copies the checkpoint in `folder` with another number of partitions: to the new folder `to`,
    or into its own place, where the old one is kept aside.

    The state of every cluster is read again and compared before the guard file is written: a
    folder without one is not a checkpoint. Until the copy is whole, `folder` does not change.
    Raises CheckpointInUse, StateVersionError, SparkStartError.
    """
    copy = folder.with_name(f".{folder.name}.repartition") if to is None else to
    guard = checked(folder, partitions, to)
    with guarded(folder, guard, timeout_s=0, keep=False):
        batch = _last_batch(folder)
        name_schemas(folder, folder)
        if to is None and copy.exists():
            shutil.rmtree(copy)  # of a run that was killed: no other one has the lock
        with spark_for(folder, session) as spark:
            try:
                clusters = _copy(spark.newSession(), folder, batch, partitions, copy)
            except (PySparkException, Py4JError) as error:
                raise StateVersionError(
                    f"the state in {folder} cannot be copied: is it a whole checkpoint? Spark's "
                    f"messages are in {folder / SPARK_LOG}"
                ) from error
        write_guard(
            copy / GUARD, replace(guard, settings={**guard.settings, PARTITIONS: partitions})
        )
        if to is not None:
            return Repartitioned(clusters, to, None)
        name_schemas(copy, folder)
        places = places_beside(folder, f"{guard.settings[PARTITIONS]}-partitions")
        aside = next(place for place in places if not place.exists())
        exchange(folder, copy)
        copy.rename(aside)
        return Repartitioned(clusters, folder, aside)


def _last_batch(folder: Path) -> int:
    batch = committed_batch(folder)
    if batch is None:
        raise StateVersionError(f"{folder} {_UNFINISHED}")
    if batch < 0:
        raise StateVersionError(f"{folder} {_NO_STATE}")
    return batch


def exchange(folder: Path, other: Path) -> None:
    """Gives two folders each other's name at once, so that no start finds none. Raises
    StateVersionError on file systems that cannot do this.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, bytes(folder), _HERE, bytes(other), _EXCHANGE) != 0:
        raise StateVersionError(
            f"{folder} and {other} cannot be exchanged ({os.strerror(ctypes.get_errno())}): "
            "nothing has changed; use --to to name another folder"
        )


def checked(folder: Path, partitions: int, to: Path | None) -> Guard:
    """Returns the guard of a checkpoint that can be copied. Raises StateVersionError."""
    guard = read_guard(folder)
    if guard.state != STATE_FORMAT:
        raise StateVersionError(
            f"the state in {folder} was written by version {guard.product}: use that version"
        )
    if guard.settings[PARTITIONS] == partitions:
        raise StateVersionError(f"the state in {folder} has {partitions} partitions already")
    if to is not None and to.exists() and any(to.iterdir()):
        raise StateVersionError(f"{to} is not empty: name a new folder")
    return guard


def _copy(spark: SparkSession, folder: Path, batch: int, partitions: int, to: Path) -> int:
    before = clusters_of(read_shards(spark, folder))
    if not before:
        raise StateVersionError(f"{folder} {_NO_STATE}")
    with tempfile.TemporaryDirectory(prefix="rebalancer-") as folder_of_rows:
        rows = f"file://{folder_of_rows}/rows"
        rows_of_clusters = [
            (shard, name, packed)
            for shard, variable in distributed(before, partitions).items()
            for (name,), (packed,) in variable.rows.items()
        ]
        # One file, so that all rows are one micro-batch.
        spark.createDataFrame(rows_of_clusters, _COLUMNS).coalesce(1).write.parquet(rows)
        _write(spark, rows, partitions, to)
    if content(clusters_of(read_shards(spark, to))) != content(before):
        raise StateVersionError(
            f"the state in {to} is not that of {folder}: this is a defect; {folder} is unchanged"
        )
    _continue_from(folder, batch, to)
    return len(before)


def _write(spark: SparkSession, rows: str, partitions: int, to: Path) -> None:
    """Lets Spark write the rows as the state of the job's operator."""
    for key, value in query_settings(JobSettings(shuffle_partitions=partitions)).items():
        spark.conf.set(key, value)
    source = spark.readStream.schema(_COLUMNS).parquet(rows)
    # The key has the same type as in the job, where it is a literal with one partition.
    keyed = (
        source.coalesce(1).withColumn("shard", F.lit(shard_keys(1)[0]))
        if partitions == 1
        else source
    )
    query = (
        keyed.groupBy("shard")
        .transformWithState(RowWriter(), OUTPUT, "Update", "None")
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", f"file://{to}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _continue_from(folder: Path, batch: int, to: Path) -> None:
    """Makes the new checkpoint's only micro-batch end where the old one's last one ended."""
    (only,) = (to / "offsets").glob("[0-9]*")
    version, mine, *_ = only.read_text("utf-8").splitlines()
    other, _, *places = (folder / "offsets" / str(batch)).read_text("utf-8").splitlines()
    if version != other:
        raise StateVersionError(
            f"{folder} has offsets of Spark's format {json.dumps(other)}, this version writes "
            f"{json.dumps(version)}: run the job once with this version, then try again"
        )
    only.write_text("\n".join([version, mine, *places]), "utf-8")
    only.with_name(f".{only.name}.crc").unlink(missing_ok=True)
    shutil.copyfile(folder / "metadata", to / "metadata")
    (to / ".metadata.crc").unlink(missing_ok=True)
    shutil.rmtree(to / "sources", ignore_errors=True)
    if (folder / "sources").is_dir():
        shutil.copytree(folder / "sources", to / "sources")


class RowWriter(StatefulProcessor):
    """Writes finished rows into Spark's state, in the operator of the job: one call per shard, with
    all its rows; publishes nothing.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("state", STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._state.updateValue((row.name,), (bytes(row.packed),))
        return iter(())

    def close(self) -> None:
        """Does nothing."""


def distributed(clusters: Mapping[str, SparkStore], partitions: int) -> Shards:
    """Returns the rows of the same clusters in the shards of another number of partitions."""
    stores: defaultdict[int, ShardStore] = defaultdict(ShardStore)
    for name, store in clusters.items():
        store.copy_to(stores[shard_of(name, partitions)].cluster(name))
    shards = {shard: MemoryVariable() for shard in stores}
    for shard, written in stores.items():
        written.flush(Rows(shards[shard]))
    return shards


def content(clusters: Mapping[str, SparkStore]) -> dict[str, object]:
    """Returns all that is to be equal: every cluster's bytes, brokers and tables."""
    return {
        name: (
            to_bytes(store.get_cluster()),
            {broker.broker: broker for broker in store.brokers()},
            store.tables(),
        )
        for name, store in clusters.items()
    }
