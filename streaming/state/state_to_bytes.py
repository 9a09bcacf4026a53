"""The rows of a shard's state in Spark: short names and packed values, readable with any
MessagePack library, those that are larger than 4 KiB after Zstandard.

All rows are one text and one value in one state variable, because Spark generates code for every
column of every variable again in every micro-batch, which costs more than the values of a hundred
brokers. Raise ROWS_VERSION (`streaming.checkpoint.remembered_and_changed_settings`) with every
change that makes older rows unreadable.

The state of a cluster is packed field by field, as a micro-batch writes the fields that it changes:
commands of the last hour are most of a state, and a load report changes none of them. Imports no
Spark.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_type_hints

import msgspec
import zstandard

from strategies.cluster.cluster_state import BrokerState, ClusterState
from strategies.cluster.packed_records import EarlyRecord
from strategies.errors import StateVersionError
from streaming.state.forget_clusters import Watch

#: Parts of a state: the head of a shard, and the entries of three compacted logs, of its clusters'
#: fields, of their brokers, and of these brokers' bundle tables.
HEAD, CLUSTERS, BROKERS, TABLES = "head", "clusters", "brokers", "tables"

#: Larger rows are compressed: less for Spark's Java to copy and to write (docs/decisions/0180). The
#: usual level takes twice as long for 5 % less.
_LARGEST_PLAIN, _LEVEL = 2**12, -1
#: How a compressed row begins, and no packed map or array.
_COMPRESSED = zstandard.FRAME_HEADER
#: Version of the state of a cluster: to be raised whenever the meaning of stored bytes changes.
STATE_VERSION = 4
_ENCODER = msgspec.msgpack.Encoder()
_TYPES = get_type_hints(ClusterState)
_DECODERS = {
    field.name: msgspec.msgpack.Decoder(_TYPES[field.name]) for field in fields(ClusterState)
}
_EARLY_RECORD = msgspec.msgpack.Decoder(EarlyRecord)
#: Fields that are empty have no bytes.
_EMPTY = {name: _ENCODER.encode(value) for name, value in vars(ClusterState()).items()}


class Head(NamedTuple):
    """The first row of a shard: the stored entries of its logs, oldest first, and its watch over
    clusters that vanish.
    """

    clusters: tuple[int, ...]
    brokers: tuple[int, ...]
    tables: tuple[int, ...]
    watch: Watch = Watch()


_HEAD = msgspec.msgpack.Decoder(Head)
_BROKERS = msgspec.msgpack.Decoder(dict[str, dict[str, BrokerState | None]])
_BYTES = msgspec.msgpack.Decoder(dict[str, dict[str, bytes | None]])


def row_name(part: str, entry: int = 0) -> str:
    """Returns the name of a row."""
    return f"{part}/{entry}"


def pack(content: Head | Mapping[str, Mapping[str, BrokerState | bytes | None]]) -> bytes:
    """Returns the head, or an entry of the clusters' fields, of the brokers or of the tables as
    bytes (cluster → name → value; None marks a removed one).
    """
    packed = msgspec.msgpack.encode(content)
    if len(packed) <= _LARGEST_PLAIN:
        return packed
    return zstandard.ZstdCompressor(level=_LEVEL).compress(packed)


def _plain(packed: bytes) -> bytes:
    if not packed.startswith(_COMPRESSED):
        return packed
    return zstandard.ZstdDecompressor().decompress(packed)


def unpack_head(packed: bytes) -> Head:
    """Unpacks a head: the inverse of `pack`."""
    return _HEAD.decode(_plain(packed))


def unpack_brokers(packed: bytes) -> dict[str, dict[str, BrokerState | None]]:
    """Unpacks brokers: the inverse of `pack`. Fields of type float are floats, even if
    integers were packed.
    """
    return _BROKERS.decode(_plain(packed))


def unpack_bytes(packed: bytes) -> dict[str, dict[str, bytes | None]]:
    """Unpacks fields of clusters, and tables: the inverse of `pack`."""
    return _BYTES.decode(_plain(packed))


def to_bytes(state: ClusterState) -> dict[str, bytes]:
    """Returns name → bytes of each field that is not empty. Equal states whose maps have the
    same order give equal bytes.
    """
    changed = changed_bytes(ClusterState(), state, {})
    return {name: packed for name, packed in changed.items() if packed is not None}


def changed_bytes(
    before: ClusterState, state: ClusterState, packed_before: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """Returns the fields whose bytes differ, None for those that are empty now. `packed_before`:
    the bytes of `before`.
    """
    old, new = _items(before), _items(state)
    changed: dict[str, bytes | None] = dict.fromkeys(packed_before.keys() - new.keys())
    for name, value in new.items():
        if name not in old or value is not old[name]:
            encoded = _ENCODER.encode(value)
            packed = None if encoded == _EMPTY.get(name) else encoded
            if packed != packed_before.get(name):
                changed[name] = packed
    return changed


def _items(state: ClusterState) -> dict[str, Any]:
    """Returns name → value of everything that is written as one value: each field, and each record
    from the log's start, because these come one by one and stay until the first round.
    """
    if not state.early:
        return vars(state)
    first = {f"early/{at:04}": record for at, record in enumerate(state.early)}
    return {name: value for name, value in vars(state).items() if name != "early"} | first


def from_bytes(packed: Mapping[str, bytes]) -> ClusterState:
    """Unpacks a state: the inverse of `to_bytes`. Raises StateVersionError for bytes that are
    damaged.
    """
    early = sorted(name for name in packed if name.startswith("early/"))
    try:
        values: dict[str, Any] = {
            name: _DECODERS[name].decode(value)
            for name, value in packed.items()
            if name not in early
        }
        if early:
            values["early"] = tuple(_EARLY_RECORD.decode(packed[name]) for name in early)
    except (KeyError, msgspec.DecodeError) as error:
        raise StateVersionError(
            f"the state of a cluster is damaged ({error}): restore the checkpoint from a copy"
        ) from error
    return ClusterState(**values)
