"""The rows of a shard's state in Spark: short names and packed values, readable with any
MessagePack library, those that are larger than 4 KiB after Zstandard.

All rows are one text and one value in one state variable, because Spark generates code for every
column of every variable again in every micro-batch, which costs more than the values of a hundred
brokers. Raise `checkpoint.ROWS_VERSION` with every change that makes older rows unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import zstandard
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from strategies.cluster.store import BrokerState
from streaming.state.vanished import Watch

STATE_KEY = StructType([StructField("name", StringType())])
STATE_VALUE = StructType([StructField("packed", BinaryType())])
#: Parts of a state: the head of a shard, and the entries of three compacted logs, of its clusters'
#: fields, of their brokers, and of these brokers' bundle tables.
HEAD, CLUSTERS, BROKERS, TABLES = "head", "clusters", "brokers", "tables"

#: Larger rows are compressed: less for Spark's Java to copy and to write (docs/decisions/0180). The
#: usual level takes twice as long for 5 % less.
_LARGEST_PLAIN, _LEVEL = 2**12, -1
#: How a compressed row begins, and no packed map or array.
_COMPRESSED = zstandard.FRAME_HEADER


class Head(NamedTuple):
    """The first row of a shard: the stored entries of its logs, oldest first, and its watch over
    clusters that vanish.
    """

    clusters: tuple[int, ...]
    brokers: tuple[int, ...]
    tables: tuple[int, ...]
    watch: Watch = Watch()


def row_name(part: str, entry: int = 0) -> str:
    """Name of a row."""
    return f"{part}/{entry}"


def named_row(name: str) -> tuple[str, int]:
    """Inverse of `row_name`: part, entry."""
    part, entry = name.split("/")
    return part, int(entry)


def pack(head: Head) -> bytes:
    """The head as bytes."""
    return _compact(msgspec.msgpack.encode(head))


def pack_entry(entry: Mapping[str, Mapping[str, BrokerState | bytes | None]]) -> bytes:
    """An entry of the clusters' fields, of the brokers or of the tables as bytes (cluster → name →
    value); None marks a removed one.
    """
    return _compact(msgspec.msgpack.encode(entry))


def _compact(packed: bytes) -> bytes:
    if len(packed) <= _LARGEST_PLAIN:
        return packed
    return zstandard.ZstdCompressor(level=_LEVEL).compress(packed)


def _plain(packed: bytes) -> bytes:
    if not packed.startswith(_COMPRESSED):
        return packed
    return zstandard.ZstdDecompressor().decompress(packed)


_HEAD = msgspec.msgpack.Decoder(Head)
_BROKERS = msgspec.msgpack.Decoder(dict[str, dict[str, BrokerState | None]])
_BYTES = msgspec.msgpack.Decoder(dict[str, dict[str, bytes | None]])


def unpack_head(packed: bytes) -> Head:
    """Inverse of `pack`."""
    return _HEAD.decode(_plain(packed))


def unpack_brokers(packed: bytes) -> dict[str, dict[str, BrokerState | None]]:
    """Inverse of `pack_entry`; fields of type float are floats, even if integers were packed."""
    return _BROKERS.decode(_plain(packed))


def unpack_bytes(packed: bytes) -> dict[str, dict[str, bytes | None]]:
    """Inverse of `pack_entry` for fields of clusters, and for tables."""
    return _BYTES.decode(_plain(packed))
