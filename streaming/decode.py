"""Reads telemetry rows in the stateful stage, and decodes their records one at a time.

A glance finds a record's cluster and time. The record is decoded when it is the next one in topic
order and its cluster's quota admits it (`processor.fold`). Until then a large one waits in a file.

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

from sinks.wire.broker_reports import RecordMetadata, SourceSettings, enveloped
from sinks.wire.codec import LARGE_BYTES, Peeked, cluster_of, decode, peek
from sinks.wire.origin import OutputRow, Position, WireLimits, pack_origin, rejected_row
from sinks.wire.signing import SigningKey, SigningSettings, intents_key
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
    """How a task reads records. `key`: of intents; `side_by_side`: see `reading`."""

    limits: WireLimits
    key: SigningKey | None
    side_by_side: bool
    large: LargeRecords


class Unread(NamedTuple):
    """A record that is not decoded yet.

    `ts`: its time if the partitions of the topic grow at the same time; 0 if it is unknown or one
    partition follows the other. `cluster`: empty if it is unknown. `has_quota`: whether the
    cluster's quota decides on `arrival`. `value`: the original bytes, or less: then they are read
    from the topic, or from the file of large records; `readable`: in the form of the wire; `size`:
    bytes of the whole record.
    """

    partition: int
    offset: int
    ts: int
    cluster: str
    has_quota: bool
    arrival: UnreadRecord
    value: bytes
    readable: bytes
    size: int
    rules: ReadingRules

    def decoded(self) -> TelemetryRecord | OutputRow:
        """The record, or the row for the rejected topic."""
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
    """A record on its way to the stateful task. `readable`: None if it is the value itself."""

    place: Position
    peeked: Peeked
    value: bytes
    readable: bytes | None
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
                for shard, some in _by_shard(batch, partitions, source).items()
                for packed in pack_records(some)
            ]
            if rows:
                yield pa.record_batch(
                    [list(column) for column in zip(*rows, strict=True)], schema=_ARROW
                )

    return pack_batches


def pack_records(records: Iterable[PackedRecord]) -> Iterator[bytes]:
    """Values of the column `packed`, each complete as soon as it is large enough."""
    some: list[PackedRecord] = []
    size = 0
    for record in records:
        some.append(record)
        size += len(record.value) + len(record.readable or b"")
        if size >= _ROW_BYTES:
            yield msgspec.msgpack.encode(some)
            some, size = [], 0
    if some:
        yield msgspec.msgpack.encode(some)


def _by_shard(batch: Any, partitions: int, source: SourceSettings) -> dict[int, list[PackedRecord]]:
    raw = source.format == "raw"
    columns = (
        map(methodcaller("as_py"), batch.column(name))
        if name in _LARGE
        else batch.column(name).to_pylist()
        for name in (*_COLUMNS, *(_AROUND if raw else ()))
    )
    found: defaultdict[int, list[PackedRecord]] = defaultdict(list)
    for topic, partition, offset, value, size, *around in zip(*columns, strict=True):
        readable = _enveloped(source, value, *around) if raw else None
        if readable is value:
            readable = None
        peeked = peek(value or b"" if readable is None else readable)
        place = Position(topic, partition, offset)
        record = PackedRecord(place, peeked, value or b"", readable, size)
        found[shard_of(peeked.cluster, partitions)].append(record)
    return found


def _unread(record: PackedRecord, rules: ReadingRules) -> Unread:
    """The record that is to be decoded; a large one is put into the file of large records."""
    place, (cluster, ts, has_quota), value, readable, size = record
    readable = value if readable is None else readable
    # What a reader decodes or keeps, even if the source has passed on less.
    read = len(value) if size > rules.limits.max_record_bytes else size
    if len(readable) > LARGE_BYTES:
        rules.large.keep(place, value, readable)
        value = readable = b""
    return Unread(
        place.partition,
        place.offset,
        # An intent is stamped by a person's machine: its time has no vote, here neither.
        ts if has_quota and rules.side_by_side else 0,
        cluster,
        has_quota,
        UnreadRecord(cluster, ts, read, place),
        value,
        readable,
        size,
        rules,
    )


def _enveloped(
    source: SourceSettings, value: bytes | None, key: bytes | None, headers: Any, ts: int
) -> bytes:
    """`headers`: None, or entries with `key` and `value`; the last of a name counts."""
    named = {header["key"]: bytes(header["value"] or b"") for header in headers or ()}
    return enveloped(
        None if value is None else bytes(value), RecordMetadata(key, named, ts), source
    )
