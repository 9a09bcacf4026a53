"""The engine inside transformWithState: folds a cluster's records in topic order over state that Spark keeps and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from sinks.outputs import OutputRow, event_row
from sinks.signing import SigningKey, SigningSettings, signing_key
from strategies.engine import Engine, EngineSettings
from strategies.packing import unpack_record
from strategies.store import StateStore
from streaming.columns import BROKER_KEY, BROKER_VALUE, CLUSTER_VALUE, TABLE_VALUE
from streaming.decode import Entry, unpack_entries
from streaming.store import SparkStore

#: `seq` numbers the rows of one cluster within a micro-batch in fold order.
OUTPUT = StructType(
    [
        StructField("kind", StringType()),
        StructField("key", StringType()),
        StructField("value", BinaryType()),
        StructField("seq", LongType()),
    ]
)


class ClusterProcessor(StatefulProcessor):
    """One call per cluster and micro-batch. Spark makes a new copy for every task: nothing but settings lives here."""

    def __init__(self, settings: EngineSettings, signing: SigningSettings = SigningSettings()) -> None:
        self._settings = settings
        self._signing = signing

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._engine = Engine(self._settings)
        # Read where it is used: the key itself never travels with the job.
        self._key = signing_key(self._signing)
        self._brokers = handle.getMapState("brokers", BROKER_KEY, BROKER_VALUE)
        self._tables = handle.getMapState("tables", BROKER_KEY, TABLE_VALUE)
        self._cluster = handle.getValueState("cluster", CLUSTER_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        store = SparkStore(self._brokers, self._tables, self._cluster)
        outputs = list(fold(self._engine, unpack_entries(row.packed for row in rows), key[0], store, self._key))
        store.flush()
        return iter([Row(kind=row.kind, key=row.key, value=row.value, seq=seq) for seq, row in enumerate(outputs)])

    def close(self) -> None:
        pass


def fold(engine: Engine, entries: Iterable[Entry], cluster: str, store: StateStore, key: SigningKey | None = None) -> Iterator[OutputRow]:
    """Output rows of a cluster's entries, in their order; commands are signed where there is a key."""
    for entry in entries:
        if entry.rejected:
            yield OutputRow("rejected", cluster, entry.data)
        else:
            yield from (event_row(event, key) for event in engine.fold(unpack_record(entry.data), store))
