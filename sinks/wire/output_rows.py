"""Rows for the three output topics (commands, rounds, rejected), as the engine's events become one
stream.
"""

from __future__ import annotations

from sinks.wire.encoding import encode_command
from sinks.wire.fitting import encode_fitting
from sinks.wire.origin import OutputRow, rejected_row
from sinks.wire.signing import SigningKey
from strategies.cluster.model import Command, Event, Round
from strategies.errors import WireError


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
