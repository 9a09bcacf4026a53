"""Rows for the three output topics (commands, rounds, rejected), as the engine's events become one
stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinks.wire.encoding import encode_command, encode_rejected
from sinks.wire.fitting import encode_fitting
from sinks.wire.origin import pack_origin, unpack_origin
from sinks.wire.position import Position
from sinks.wire.signing import SigningKey
from strategies.cluster.model import Command, Event, Round
from strategies.cluster.quota import OVER_QUOTA, OverQuota
from strategies.errors import WireError


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One record for the topic that `kind` names. `key`: the cluster, empty if unknown."""

    kind: Literal["commands", "rounds", "rejected"]
    key: str
    value: bytes


def event_row(event: Event, key: SigningKey | None = None) -> OutputRow:
    """The row of a command or a round (signed if there is a key), or of a record that the engine
    could not use.
    """
    if isinstance(event, Command):
        record = encode_command(event)
        return OutputRow("commands", event.cluster, record if key is None else key.sign(record))
    if isinstance(event, Round):
        record = encode_fitting(event)
        return OutputRow("rounds", event.cluster, record if key is None else key.sign(record))
    return rejected_row(
        WireError(event.code, event.text), event.record.origin, event.record.cluster
    )


def over_quota_row(aside: OverQuota, cluster: str) -> OutputRow:
    """The row of all records that a quota set aside, at the position of the first one."""
    origin = pack_origin(Position(*aside.first), b"", aside.size, compress=False)
    return rejected_row(WireError(OVER_QUOTA, aside.text), origin, cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """The row of a record that could not be decoded. `origin`: from `pack_origin`; `cluster`: empty
    if unknown.
    """
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))
