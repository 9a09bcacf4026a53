"""Decodes telemetry rows to records in topic order, in the stateful stage.

A record whose cluster and time a glance finds is sealed: the cluster's quota decides whether it is
opened, which is to decode it (`processor.fold`). Until then a large one waits in a file. Others are
decoded where they are read.

With one state partition there is one stage: rows reach the stateful task as they are in the topic
(`decoding`). With several partitions, each record must first reach the partition of its cluster's
shard: the tasks that read make one packed row per cluster and Arrow batch (`packer`), and the
stateful tasks unpack these rows after the exchange (`unpacking`). A record that cannot be decoded
there travels with them as a finished row for the rejected topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import methodcaller
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from sinks.wire.codec import cluster_of, decode
from sinks.wire.origin import pack_origin
from sinks.wire.output_rows import rejected_row
from sinks.wire.peek import LARGE_BYTES, peek
from sinks.wire.position import Position
from sinks.wire.raw import RecordMetadata, SourceSettings, enveloped
from sinks.wire.signing import SigningKey, SigningSettings, intents_key
from sinks.wire.size_limits import WireLimits
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import TelemetryRecord
from strategies.cluster.packing import pack_record, unpack_record
from strategies.cluster.quota import UnreadRecord
from strategies.errors import WireError
from streaming.large_records import LargeRecords, ReadAgain, never_again
from streaming.state.shards import shard_of

PACKED = StructType(
    [
        StructField("shard", IntegerType()),
        StructField("cluster", StringType()),
        StructField("packed", BinaryType()),
    ]
)
_ARROW = to_arrow_schema(PACKED)
#: Size at which a packed row is complete, far below the limits of Java and Arrow.
_ROW_BYTES = 8 * 2**20
#: Columns of a batch that are read one value at a time: all values together would need as much
#: memory as the batch. A list is faster for small columns.
_LARGE = frozenset({"value", "key", "headers"})

#: Size up to which a micro-batch's original bytes are carried uncompressed; compressing the rest
#: costs time instead of memory.
_RAW_BYTES = 64 * 2**20


class Sealed(NamedTuple):
    """A record that is not decoded yet, because its cluster's quota decides whether it is.
    `value`: its original bytes, or less: then it is read from the topic, or from the file of large
    records, when it is opened; `readable`: in the form of the wire; `size`: bytes of the whole
    record.
    """

    arrival: UnreadRecord
    value: bytes
    readable: bytes
    size: int
    reading: ReadingRules

    def opened(self) -> Decoded:
        """The decoded record."""
        place, value, readable = Position(*self.arrival.place), self.value, self.readable
        if len(value) < self.arrival.size:
            value, readable = self.reading.large.read(place, self.arrival.size)
        origin = pack_origin(place, value, self.size, compress=False)
        return _decode(origin, place, readable, self.reading, self.arrival.cluster)


class ReadingRules(NamedTuple):
    """How a task reads records. `key`: of intents; `side_by_side`: see `decoding`."""

    limits: WireLimits
    key: SigningKey | None
    side_by_side: bool
    large: LargeRecords


class Decoded(NamedTuple):
    """One record and its position. `record` is None if it cannot be decoded; `rejected` is then the
    finished value for the rejected topic. With `sealed`, it is still to be opened.

    `ts`: the record's time if the partitions of a topic grow at the same time; 0 if it is unknown
    or one partition follows the other.
    """

    partition: int
    offset: int
    ts: int
    cluster: str
    record: TelemetryRecord | None
    rejected: bytes
    sealed: Sealed | None = None


#: Turns the rows of one stateful task, as Spark passes them, into decoded records.
ReadRows = Callable[[Iterable[Any]], Iterator[Decoded]]


class SealedEntry(NamedTuple):
    """What else a sealed record takes along. `readable`: None if it is the value itself."""

    topic: str
    ts: int
    size: int
    readable: bytes | None


class DecodedEntry(NamedTuple):
    """A `Decoded` on its way to another task: `data` is a packed record, or, when `rejected`, a
    finished value, or, when `sealed`, the original bytes.
    """

    partition: int
    offset: int
    ts: int
    rejected: bool
    data: bytes
    sealed: SealedEntry | None = None


_ENTRIES = msgspec.msgpack.Decoder(list[DecodedEntry])


def decoding(
    limits: WireLimits,
    source: SourceSettings = SourceSettings(),
    *,
    side_by_side: bool = False,
    signing: SigningSettings = SigningSettings(),
    read_again: ReadAgain = never_again,
) -> ReadRows:
    """Returns the decoder of rows with the source's columns.

    `source`: settings of the records' content. `side_by_side`: partitions grow at the same time
    (Kafka); otherwise one follows the other (the segments of a file topic). `signing`: names the
    key of intents, which the task itself reads: a key is never serialised with the job.
    `read_again`: gets records of which the source passes on only the beginning.
    """

    def read(rows: Iterable[Any]) -> Iterator[Decoded]:
        carried, key = 0, intents_key(signing)
        reading = ReadingRules(limits, key, side_by_side, LargeRecords(read_again))
        for row in rows:
            value = row.value or b""
            place = Position(row.topic, row.partition, row.offset)
            readable = (
                _enveloped(row.value, row.key, row.headers, row.ts, source)
                if source.format == "raw"
                else value
            )
            sealed = _sealed(place, value, readable, row.size, reading)
            if sealed is not None:
                yield _without_large(sealed)
                continue
            carried += len(value)
            origin = pack_origin(place, value, row.size, compress=carried > _RAW_BYTES)
            yield _decode(origin, place, readable, reading)

    return read


def unpacking(
    limits: WireLimits,
    *,
    side_by_side: bool = False,
    signing: SigningSettings = SigningSettings(),
    read_again: ReadAgain = never_again,
) -> ReadRows:
    """Returns the decoder of rows that a `packer` created. `side_by_side`, `signing`,
    `read_again`: see `decoding`.
    """

    def read(rows: Iterable[Any]) -> Iterator[Decoded]:
        # The decoder of entries cannot be serialised with this function.
        key = intents_key(signing)
        return _unpacked(rows, ReadingRules(limits, key, side_by_side, LargeRecords(read_again)))

    return read


def _unpacked(rows: Iterable[Any], reading: ReadingRules) -> Iterator[Decoded]:
    for row in rows:
        for entry in _ENTRIES.decode(row.packed):
            yield _decoded(entry, row.cluster, reading)


def _decoded(entry: DecodedEntry, cluster: str, reading: ReadingRules) -> Decoded:
    partition, offset, ts, rejected, data, kept = entry
    if kept is None:
        record = None if rejected else unpack_record(data)
        return Decoded(partition, offset, ts, cluster, record, data if rejected else b"")
    size = _read_bytes(data, kept.size, reading.limits)
    arrival = UnreadRecord(cluster, kept.ts, size, (kept.topic, partition, offset))
    readable = data if kept.readable is None else kept.readable
    sealed = Sealed(arrival, data, readable, kept.size, reading)
    return _without_large(Decoded(partition, offset, ts, cluster, None, b"", sealed))


def packer(
    limits: WireLimits,
    partitions: int,
    source: SourceSettings = SourceSettings(),
    *,
    side_by_side: bool = False,
    signing: SigningSettings = SigningSettings(),
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Returns the function for `mapInArrow`, from batches of the source's columns to batches of
    PACKED. `partitions`: of the state; `side_by_side`, `signing`: see `decoding`.
    """

    def pack_batches(batches: Iterable[Any]) -> Iterator[Any]:
        reading = ReadingRules(limits, intents_key(signing), side_by_side, LargeRecords())
        for batch in batches:
            rows = [
                (shard_of(cluster, partitions), cluster, packed)
                for cluster, some in _packed(batch, source, reading).items()
                for packed in pack_entries(some)
            ]
            if rows:
                yield pa.record_batch(
                    [list(column) for column in zip(*rows, strict=True)], schema=_ARROW
                )

    return pack_batches


def pack_entries(entries: Iterable[DecodedEntry]) -> Iterator[bytes]:
    """Values of the column `packed`, each complete as soon as it is large enough."""
    some: list[DecodedEntry] = []
    size = 0
    for entry in entries:
        some.append(entry)
        size += len(entry.data)
        if entry.sealed is not None and entry.sealed.readable is not None:
            size += len(entry.sealed.readable)
        if size >= _ROW_BYTES:
            yield msgspec.msgpack.encode(some)
            some, size = [], 0
    if some:
        yield msgspec.msgpack.encode(some)


def _packed(
    batch: Any, source: SourceSettings, reading: ReadingRules
) -> Mapping[str, list[DecodedEntry]]:
    raw = source.format == "raw"
    names = (
        "topic",
        "partition",
        "offset",
        "value",
        "size",
        *(("key", "headers", "ts") if raw else ()),
    )
    columns = (
        map(methodcaller("as_py"), batch.column(name))
        if name in _LARGE
        else batch.column(name).to_pylist()
        for name in names
    )
    found: defaultdict[str, list[DecodedEntry]] = defaultdict(list)
    for topic, partition, offset, value, size, *around in zip(*columns, strict=True):
        readable = _enveloped(value, around[0], around[1], around[2], source) if raw else value
        place = Position(topic, partition, offset)
        one = _sealed(place, value or b"", readable or b"", size, reading)
        if one is None:
            one = _decode(pack_origin(place, value or b"", size), place, readable, reading)
        found[one.cluster].append(_entry(one))
    return found


def _entry(one: Decoded) -> DecodedEntry:
    if one.sealed is None:
        data = one.rejected if one.record is None else pack_record(one.record)
        return DecodedEntry(one.partition, one.offset, one.ts, one.record is None, data)
    arrival, value, readable, size, _ = one.sealed
    kept = SealedEntry(arrival.place[0], arrival.ts, size, None if readable is value else readable)
    return DecodedEntry(one.partition, one.offset, one.ts, False, value, kept)


def _sealed(
    place: Position, value: bytes, readable: bytes, size: int, reading: ReadingRules
) -> Decoded | None:
    """The record with what a glance finds; None if that is not enough for its quota."""
    peeked = peek(readable)
    if peeked is None:
        return None
    read = _read_bytes(value, size, reading.limits)
    arrival = UnreadRecord(peeked.cluster, peeked.ts, read, place)
    sealed = Sealed(arrival, value, readable, size, reading)
    ts = peeked.ts if reading.side_by_side else 0
    return Decoded(place.partition, place.offset, ts, peeked.cluster, None, b"", sealed)


def _without_large(one: Decoded) -> Decoded:
    """The same record; if it is large and still sealed, it waits in the file of large records."""
    sealed = one.sealed
    if sealed is None or len(sealed.readable) <= LARGE_BYTES:
        return one
    sealed.reading.large.keep(Position(*sealed.arrival.place), sealed.value, sealed.readable)
    return one._replace(sealed=sealed._replace(value=b"", readable=b""))


def _read_bytes(value: bytes, size: int, limits: WireLimits) -> int:
    """Bytes of a record of `size` that a reader decodes or keeps, even if it has passed on less."""
    return len(value) if size > limits.max_record_bytes else size


def _enveloped(
    value: bytes | None, key: bytes | None, headers: Any, ts: int, source: SourceSettings
) -> bytes:
    """`headers`: None, or entries with `key` and `value`; the last of a name counts."""
    named = {header["key"]: bytes(header["value"] or b"") for header in headers or ()}
    return enveloped(
        None if value is None else bytes(value), RecordMetadata(key, named, ts), source
    )


def _decode(
    origin: bytes, place: Position, value: bytes, reading: ReadingRules, expected: str | None = None
) -> Decoded:
    """`expected`: the cluster that the record must name; None if none is known yet."""
    _, partition, offset = place
    try:
        record = decode(value, origin, reading.limits, reading.key, cluster=expected)
    except WireError as error:
        row = rejected_row(error, origin, cluster_of(value))
        return Decoded(partition, offset, 0, row.key, None, row.value)
    # An intent is stamped by a person's machine: its time has no vote, here neither.
    timed = reading.side_by_side and not isinstance(record, Intent)
    return Decoded(partition, offset, record.ts if timed else 0, record.cluster, record, b"")
