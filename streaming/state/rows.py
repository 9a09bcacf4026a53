"""The rows under which a cluster's state lies in Spark: short names and packed values, readable with any reader of MessagePack.

One text and one value in one state variable, because Spark makes code for every column of every variable anew in every micro-batch, which
costs more than the values of a hundred brokers do. Raise `checkpoint.ROWS_VERSION` with every change that older rows
cannot be read with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from strategies.store import BrokerState

STATE_KEY = StructType([StructField("name", StringType())])
STATE_VALUE = StructType([StructField("packed", BinaryType())])
#: Parts of a state: of a cluster its head; of its brokers, and of their bundle tables, the entries of a compacted log.
HEAD, BROKERS, TABLES = "head", "brokers", "tables"


class Head(NamedTuple):
    """What is read first of a cluster. `cluster`: versioned bytes (`strategies.state`); the entries that count, oldest first."""

    cluster: bytes
    broker_entries: tuple[int, ...]
    table_entries: tuple[int, ...]


_HEAD = msgspec.msgpack.Decoder(Head)
_BROKERS = msgspec.msgpack.Decoder(dict[str, BrokerState | None])
_TABLES = msgspec.msgpack.Decoder(dict[str, bytes | None])


def row_name(part: str, cluster: str, entry: int = 0) -> str:
    """A cluster's name may hold anything, so it stands last."""
    return f"{part}/{entry}/{cluster}"


def named_row(name: str) -> tuple[str, str, int]:
    """Inverse of `row_name`: part, cluster, entry."""
    part, entry, cluster = name.split("/", 2)
    return part, cluster, int(entry)


def pack(value: Head | Mapping[str, BrokerState | None] | Mapping[str, bytes | None]) -> bytes:
    """The value of a row; None stands for a broker that is gone."""
    return msgspec.msgpack.encode(value)


def unpack_head(packed: bytes) -> Head:
    """Inverse of `pack`."""
    return _HEAD.decode(packed)


def unpack_brokers(packed: bytes) -> dict[str, BrokerState | None]:
    """Inverse of `pack`; numbers that are floats by type are floats, also where they were given as integers."""
    return _BROKERS.decode(packed)


def unpack_tables(packed: bytes) -> dict[str, bytes | None]:
    """Inverse of `pack`."""
    return _TABLES.decode(packed)
