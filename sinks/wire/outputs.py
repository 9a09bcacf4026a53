"""What leaves the deciding part: rows for the three output topics, all through one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinks.wire.encoding import encode_command, encode_rejected
from sinks.wire.fitting import encode_fitting
from sinks.wire.origin import unpack_origin
from sinks.wire.signing import SigningKey
from strategies.errors import WireError
from strategies.model import Command, Event, Round


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One record of the topic that `kind` names; `key` is the cluster, empty if unknown."""

    kind: Literal["commands", "rounds", "rejected"]
    key: str
    value: bytes


def event_row(event: Event, key: SigningKey | None = None) -> OutputRow:
    """A command or a round (signed where there is a key), or a record that the engine understood and could not use."""
    if isinstance(event, Command):
        record = encode_command(event)
        return OutputRow("commands", event.cluster, record if key is None else key.sign(record))
    if isinstance(event, Round):
        record = encode_fitting(event)
        return OutputRow("rounds", event.cluster, record if key is None else key.sign(record))
    return rejected_row(WireError(event.code, event.text), event.record.origin, event.record.cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """A record that could not be used; `origin` as made by `pack_origin`, `cluster` empty if unknown."""
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))
