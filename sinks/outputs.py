"""What leaves the deciding part: rows for the three output topics, all through one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinks.encoding import encode_command, encode_rejected, encode_round
from sinks.origin import unpack_origin
from strategies.errors import WireError
from strategies.model import Command, Event, Round


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One record of the topic that `kind` names; `key` is the cluster, empty if unknown."""

    kind: Literal["commands", "rounds", "rejected"]
    key: str
    value: bytes


def event_row(event: Event) -> OutputRow:
    """A command, a round, or a record that the engine understood and could not use."""
    if isinstance(event, Command):
        return OutputRow("commands", event.cluster, encode_command(event))
    if isinstance(event, Round):
        return OutputRow("rounds", event.cluster, encode_round(event))
    return rejected_row(WireError(event.code, event.text), event.record.origin, event.record.cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """A record that could not be used; `origin` as made by `pack_origin`, `cluster` empty if unknown."""
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))
