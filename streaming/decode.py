"""Telemetry rows to packed rows: one per cluster and Arrow batch, with every record of it, decoded, and its place in the topic.

Decoding runs in as many tasks as read; the stateful task of a cluster gets few large rows, which costs it a third of what one row
per record would. What cannot be decoded travels along as a finished row for the rejected topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from sinks.limits import WireLimits
from sinks.origin import pack_origin
from sinks.outputs import rejected_row
from sinks.position import Position
from sinks.wire import cluster_of, decode
from strategies.errors import WireError
from strategies.packing import pack_record

PACKED = StructType([StructField("cluster", StringType()), StructField("packed", BinaryType())])
_ARROW = pa.schema([("cluster", pa.string()), ("packed", pa.binary())])
#: A packed row is closed when it has this size, so that no row comes near the limits of Java and Arrow.
_ROW_BYTES = 8 * 2**20


class Entry(NamedTuple):
    """One record and where it stood: `data` is a packed record, or, when `rejected`, a finished value for the rejected topic.

    `ts`: the record's time where the partitions of a topic grow side by side; 0 where it is unknown or one follows the other.
    """

    partition: int
    offset: int
    ts: int
    rejected: bool
    data: bytes


_ENTRIES = msgspec.msgpack.Decoder(list[Entry])


def decoder(limits: WireLimits, *, side_by_side: bool = False) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """The function for `mapInArrow`: batches of the source's columns in, batches of PACKED out.

    `side_by_side`: partitions grow at the same time (Kafka); otherwise one follows the other (the segments of a file topic).
    """

    def decode_batches(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            entries = _by_cluster(batch, limits, side_by_side)
            rows = [(cluster, packed) for cluster, listed in entries.items() for packed in pack_entries(listed)]
            if rows:
                yield pa.record_batch([[cluster for cluster, _ in rows], [packed for _, packed in rows]], schema=_ARROW)

    return decode_batches


def pack_entries(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Values of the column `packed`, each closed as soon as it is large enough."""
    some: list[Entry] = []
    size = 0
    for entry in entries:
        some.append(entry)
        size += len(entry.data)
        if size >= _ROW_BYTES:
            yield msgspec.msgpack.encode(some)
            some, size = [], 0
    if some:
        yield msgspec.msgpack.encode(some)


def unpack_entries(packed: Iterable[bytes]) -> list[Entry]:
    """All entries of one cluster in topic order, whatever order the rows came in.

    Where its records lie in several partitions, these are merged by time; the order within a partition is never changed, so that a
    clock that jumps back cannot bring a topic of keyed records (one partition per cluster) out of order.
    """
    entries = sorted((entry for value in packed for entry in _ENTRIES.decode(value)), key=lambda entry: entry[:2])
    newest: dict[int, int] = {}
    times: list[int] = []
    for entry in entries:
        newest[entry.partition] = max(newest.get(entry.partition, 0), entry.ts)
        times.append(newest[entry.partition])
    return [entries[i] for i in sorted(range(len(entries)), key=times.__getitem__)]  # stable: same time, then partition, then offset


def _by_cluster(batch: Any, limits: WireLimits, side_by_side: bool) -> dict[str, list[Entry]]:
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value", "size"))
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for topic, partition, offset, value, size in zip(*columns, strict=True):
        cluster, ts, rejected, data = _decode_one(Position(topic, partition, offset), value, size, limits)
        found[cluster].append(Entry(partition, offset, ts if side_by_side else 0, rejected, data))
    return found


def _decode_one(position: Position, value: bytes, size: int, limits: WireLimits) -> tuple[str, int, bool, bytes]:
    origin = pack_origin(position, value, size)
    try:
        record = decode(value, origin, limits)
    except WireError as error:
        row = rejected_row(error, origin, cluster_of(value))
        return row.key, 0, True, row.value
    return record.cluster, record.ts, False, pack_record(record)
