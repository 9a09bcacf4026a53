"""Reads telemetry rows in the stateful stage, and decodes their records one at a time.

`peek` reads a record's cluster and time from its first bytes. The record is decoded when it is the
next one in topic order and its cluster's quota admits it (`processor.fold`). Until then a large one
waits in a file.

With one state partition there is one stage: rows reach the stateful task as they are in the topic
(`reading`). With several partitions, each record must first reach the partition of its cluster's
shard: the tasks that read make packed rows for each shard (`packer`), and the stateful tasks unpack
these rows after the exchange (`unpacking`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from sinks.wire.event_to_topic_rows import OutputRow, rejected_row
from sinks.wire.raw_broker_reports import RecordMetadata, SourceSettings, enveloped
from sinks.wire.record_decoding import (
    LARGE_BYTES,
    Peeked,
    Position,
    WireLimits,
    cluster_of,
    decode,
    pack_origin,
    peek,
)
from sinks.wire.signing_keys import SigningKey, SigningSettings, intents_key
from strategies.cluster.model import TelemetryRecord
from strategies.cluster.quota import UnreadRecord
from strategies.errors import WireError
from streaming.large_records import LargeRecords
from streaming.state.shards import shard_of

PACKED = StructType([StructField("shard", IntegerType()), StructField("packed", BinaryType())])
_ARROW = to_arrow_schema(PACKED)
#: Size at which a packed row is complete, far below the limits of Java and Arrow.
_ROW_BYTES = 8 * 2**20
#: Columns of a batch that are read one value at a time: all values together would need as much
#: memory as the batch. A list is faster for small columns.
_LARGE = frozenset({"value", "key", "headers"})
_COLUMNS = ("topic", "partition", "offset", "value", "size")
#: Columns that a record without our envelope needs, too.
_AROUND = ("key", "headers", "ts")


class ReadingRules(NamedTuple):
    """The rules and helpers by which a task reads records."""

    limits: WireLimits
    #: The key of intents; None if they are not signed.
    key: SigningKey | None
    #: See `reading`.
    side_by_side: bool
    large: LargeRecords


class Unread(NamedTuple):
    """A record that is not decoded yet."""

    partition: int
    offset: int
    #: Its time (ms since the epoch) if the partitions of the topic grow at the same time; 0 if it
    #: is unknown, or if one partition follows the other.
    ts: int
    #: Empty if it is unknown.
    cluster: str
    #: The cluster's quota decides whether `arrival` is decoded.
    has_quota: bool
    arrival: UnreadRecord
    #: The original bytes; if there are fewer than `arrival.size`, they are read from the file of
    #: large records or from the topic.
    value: bytes
    #: The bytes in the form of the wire.
    readable: bytes
    #: Bytes of the whole record.
    size: int
    rules: ReadingRules

    def decoded(self) -> TelemetryRecord | OutputRow:
        """Decodes the record. Returns the row for the rejected topic if it is not valid."""
        place, value, readable = Position(*self.arrival.place), self.value, self.readable
        if len(value) < self.arrival.size:
            value, readable = self.rules.large.read(place, self.arrival.size)
        origin = pack_origin(place, value, self.size)
        limits, key = self.rules.limits, self.rules.key
        try:
            return decode(readable, origin, limits, key, cluster=self.cluster)
        except WireError as error:
            return rejected_row(error, origin, cluster_of(readable))


#: Turns the rows of one stateful task, as Spark passes them, into records.
ReadRows = Callable[[Iterable[Any]], Iterator[Unread]]


class PackedRecord(NamedTuple):
    """A record on its way to the stateful task."""

    place: Position
    peeked: Peeked
    value: bytes
    #: The form of the wire; None if it is the value itself.
    readable: bytes | None
    #: Bytes of the whole record.
    size: int


def reading(
    limits: WireLimits,
    source: SourceSettings = SourceSettings(),
    *,
    side_by_side: bool = False,
    signing: SigningSettings = SigningSettings(),
) -> ReadRows:
    """Returns the reader of rows with the source's columns.

    `source`: settings of the records' content. `side_by_side`: partitions grow at the same time
    (Kafka); otherwise one follows the other (the segments of a file topic). `signing`: names the
    key of intents, which the task itself reads: a key is never serialised with the job.
    """

    def read(rows: Iterable[Any]) -> Iterator[Unread]:
        rules = ReadingRules(limits, intents_key(signing), side_by_side, LargeRecords())
        for row in rows:
            value = row.value or b""
            readable = value
            if source.format == "raw":
                readable = _enveloped(source, row.value, row.key, row.headers, row.ts)
            place = Position(row.topic, row.partition, row.offset)
            yield _unread(PackedRecord(place, peek(readable), value, readable, row.size), rules)

    return read


def unpacking(
    limits: WireLimits,
    *,
    side_by_side: bool = False,
    signing: SigningSettings = SigningSettings(),
) -> ReadRows:
    """Returns the reader of rows that a `packer` created. Arguments: see `reading`."""

    def read(rows: Iterable[Any]) -> Iterator[Unread]:
        rules = ReadingRules(limits, intents_key(signing), side_by_side, LargeRecords())
        decoder = msgspec.msgpack.Decoder(list[PackedRecord])
        for row in rows:
            for record in decoder.decode(row.packed):
                yield _unread(record, rules)

    return read


def packer(
    partitions: int, source: SourceSettings = SourceSettings()
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Returns the function for `mapInArrow`, from batches of the source's columns to batches of
    PACKED. `partitions`: of the state.
    """

    def pack_batches(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            rows = [
                (shard, packed)
                for shard, records in _by_shard(batch, partitions, source).items()
                for packed in pack_records(records)
            ]
            if rows:
                yield pa.record_batch(
                    [list(column) for column in zip(*rows, strict=True)], schema=_ARROW
                )

    return pack_batches


def pack_records(records: Iterable[PackedRecord]) -> Iterator[bytes]:
    """Yields values of the column `packed`, each as soon as it has `_ROW_BYTES`."""
    pending: list[PackedRecord] = []
    size = 0
    for record in records:
        pending.append(record)
        size += len(record.value) + len(record.readable or b"")
        if size >= _ROW_BYTES:
            yield msgspec.msgpack.encode(pending)
            pending, size = [], 0
    if pending:
        yield msgspec.msgpack.encode(pending)


def _by_shard(batch: Any, partitions: int, source: SourceSettings) -> dict[int, list[PackedRecord]]:
    raw = source.format == "raw"
    columns = (
        map(methodcaller("as_py"), batch.column(name))
        if name in _LARGE
        else batch.column(name).to_pylist()
        for name in (*_COLUMNS, *(_AROUND if raw else ()))
    )
    records_of: defaultdict[int, list[PackedRecord]] = defaultdict(list)
    for topic, partition, offset, value, size, *around in zip(*columns, strict=True):
        readable = _enveloped(source, value, *around) if raw else None
        if readable is value:
            readable = None
        peeked = peek(value or b"" if readable is None else readable)
        place = Position(topic, partition, offset)
        record = PackedRecord(place, peeked, value or b"", readable, size)
        records_of[shard_of(peeked.cluster, partitions)].append(record)
    return records_of


def _unread(record: PackedRecord, rules: ReadingRules) -> Unread:
    """Returns a record to decode; moves the bytes of a large one to the file of large records."""
    place, (cluster, ts, has_quota), value, readable, size = record
    readable = value if readable is None else readable
    # Bytes that a task decodes or keeps; the source may have passed on fewer.
    read = len(value) if size > rules.limits.max_record_bytes else size
    if len(readable) > LARGE_BYTES:
        rules.large.keep(place, value, readable)
        value = readable = b""
    return Unread(
        place.partition,
        place.offset,
        # An intent has the time of a person's machine, which does not affect the order of records.
        ts if has_quota and rules.side_by_side else 0,
        cluster,
        has_quota,
        UnreadRecord(ts, read, place),
        value,
        readable,
        size,
        rules,
    )


def _enveloped(
    source: SourceSettings, value: bytes | None, key: bytes | None, headers: Any, ts: int
) -> bytes:
    """Returns a broker's own record in the envelope of the wire. `headers`: None, or entries with
    `key` and `value`; the last one of a name counts.
    """
    last = {header["key"]: bytes(header["value"] or b"") for header in headers or ()}
    return enveloped(None if value is None else bytes(value), RecordMetadata(key, last, ts), source)
