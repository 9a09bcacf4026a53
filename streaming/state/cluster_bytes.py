"""The bytes of a cluster's state, field by field: a micro-batch writes the fields that it changes.
Commands of the last hour are most of a state, and a load report changes none of them.

Values are MessagePack, which has all floats and is written without Python code for each field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import msgspec

from strategies.cluster.packing import EarlyRecord
from strategies.cluster.state import ClusterState
from strategies.errors import StateVersionError

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


def to_bytes(state: ClusterState) -> dict[str, bytes]:
    """Name → bytes of each field that is not empty. Equal states whose maps have the same order
    give equal bytes.
    """
    found = changed_bytes(ClusterState(), state, {})
    return {name: packed for name, packed in found.items() if packed is not None}


def changed_bytes(
    before: ClusterState, state: ClusterState, known: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """The fields whose bytes differ, None for those that are empty now. `known`: the bytes of
    `before`.
    """
    old, new = _items(before), _items(state)
    found: dict[str, bytes | None] = dict.fromkeys(known.keys() - new.keys())
    for name, value in new.items():
        if name not in old or value is not old[name]:
            encoded = _ENCODER.encode(value)
            packed = None if encoded == _EMPTY.get(name) else encoded
            if packed != known.get(name):
                found[name] = packed
    return found


def _items(state: ClusterState) -> dict[str, Any]:
    """What is written as one value: each field, and each record from the log's start, because these
    come one by one and stay until the first round.
    """
    if not state.early:
        return vars(state)
    first = {f"early/{at:04}": one for at, one in enumerate(state.early)}
    return {name: value for name, value in vars(state).items() if name != "early"} | first


def from_bytes(packed: Mapping[str, bytes]) -> ClusterState:
    """Inverse of `to_bytes`. Raises StateVersionError for bytes that are damaged."""
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
