"""The rows of a cluster's state in Spark: short names and packed values, readable with any
MessagePack library.

All rows are one text and one value in one state variable, because Spark generates code for every
column of every variable again in every micro-batch, which costs more than the values of a hundred
brokers. Raise `checkpoint.ROWS_VERSION` with every change that makes older rows unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from strategies.store import BrokerState

STATE_KEY = StructType([StructField("name", StringType())])
STATE_VALUE = StructType([StructField("packed", BinaryType())])
#: Parts of a state: the head of a cluster, and the entries of two compacted logs, of its brokers
#: and of their bundle tables.
HEAD, BROKERS, TABLES = "head", "brokers", "tables"


class Head(NamedTuple):
    """The first row of a cluster. `cluster`: versioned bytes (`strategies.state`); the stored
    entries of both logs, oldest first.
    """

    cluster: bytes
    broker_entries: tuple[int, ...]
    table_entries: tuple[int, ...]


def row_name(part: str, cluster: str, entry: int = 0) -> str:
    """Name of a row. The cluster is the last part, because its name may contain any character."""
    return f"{part}/{entry}/{cluster}"


def named_row(name: str) -> tuple[str, str, int]:
    """Inverse of `row_name`: part, cluster, entry."""
    part, entry, cluster = name.split("/", 2)
    return part, cluster, int(entry)


def pack(value: Head | Mapping[str, BrokerState | None] | Mapping[str, bytes | None]) -> bytes:
    """The value of a row as bytes; None marks a removed broker."""
    return msgspec.msgpack.encode(value)


#: Inverses of `pack`; fields of type float are floats, even if integers were packed.
unpack_head = msgspec.msgpack.Decoder(Head).decode
unpack_brokers = msgspec.msgpack.Decoder(dict[str, BrokerState | None]).decode
unpack_tables = msgspec.msgpack.Decoder(dict[str, bytes | None]).decode
