"""Rows for the three output topics: commands and rounds of the engine, and rejected records, which
hold the original bytes and the reason.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from sinks.wire.contracts.job_output import RejectedRecord
from sinks.wire.record_decoding import (
    LARGEST_ORIGINAL,
    Origin,
    Position,
    pack_origin,
    unpack_origin,
)
from sinks.wire.record_encoding import encode_command
from sinks.wire.round_size_limit import encode_fitting
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command, Event, Round
from strategies.cluster.quota import OVER_QUOTA, OverQuota
from strategies.errors import WireError

_ENCODER = msgspec.json.Encoder()


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
    origin = pack_origin(Position(*aside.first), b"", aside.size)
    return rejected_row(WireError(OVER_QUOTA, aside.text), origin, cluster)


def rejected_row(error: WireError, origin: bytes, cluster: str) -> OutputRow:
    """The row of a record that could not be decoded. `origin`: from `pack_origin`; `cluster`: empty
    if unknown.
    """
    return OutputRow("rejected", cluster, encode_rejected(error, unpack_origin(origin), cluster))


def encode_rejected(error: WireError, origin: Origin, cluster: str) -> bytes:
    """Encodes a record of the REJECTED topic; `cluster` is empty if unknown."""
    topic, partition, offset = origin.position
    record = RejectedRecord(
        v=1,
        topic=topic,
        partition=partition,
        offset=offset,
        cluster=cluster or None,
        code=error.code,
        text=error.text,
        original=origin.value[:LARGEST_ORIGINAL],
        size=origin.size,
        truncated=origin.truncated or len(origin.value) > LARGEST_ORIGINAL,
    )
    # `encode` returns bytes with up to half as much memory again; a job holds all rejected records
    # of a micro-batch.
    text = bytearray()
    _ENCODER.encode_into(record, text)
    return bytes(text)
