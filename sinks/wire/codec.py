"""The wire format: bytes of a topic to records and back. Anything that cannot be decoded raises WireError, and nothing else does."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sinks.wire.complaints import Contract, complaint
from sinks.wire.contracts.commands import CommandRecord
from sinks.wire.contracts.outcomes import OutcomeRecord
from sinks.wire.contracts.rejected import RejectedRecord
from sinks.wire.contracts.rounds import RoundRecord
from sinks.wire.contracts.telemetry import KINDS, TelemetryMessage
from sinks.wire.decoding import to_outcome, to_record
from sinks.wire.encoding import (
    encode_command,
    encode_outcome,
    encode_outcome_telemetry,
    encode_rejected,
    encode_round,
    to_command,
    to_round,
)
from sinks.wire.limits import DEFAULT_LIMITS, WireLimits, clip
from sinks.wire.names import check_broker, check_bundles, check_cluster, is_cluster
from sinks.wire.origin import origin_size
from sinks.wire.shape import check_shape
from strategies.errors import WireError
from strategies.model import Command, Outcome, Round, TelemetryRecord

__all__ = [
    "RejectedRecord",
    "WireLimits",
    "clip",
    "cluster_of",
    "decode",
    "decode_command",
    "decode_outcome",
    "decode_rejected",
    "decode_round",
    "encode_command",
    "encode_outcome",
    "encode_outcome_telemetry",
    "encode_rejected",
    "encode_round",
    "read_command",
    "to_command",
]

T = TypeVar("T")


class _ClusterOnly(msgspec.Struct):
    cluster: str


_TELEMETRY = msgspec.json.Decoder(TelemetryMessage)
_CLUSTER = msgspec.json.Decoder(_ClusterOnly)
_COMMAND = msgspec.json.Decoder(CommandRecord)
_ROUND = msgspec.json.Decoder(RoundRecord)
_OUTCOME = msgspec.json.Decoder(OutcomeRecord)
_REJECTED = msgspec.json.Decoder(RejectedRecord)


def decode(value: bytes, origin: bytes, limits: WireLimits = DEFAULT_LIMITS) -> TelemetryRecord:
    """One telemetry record. `origin` (see `pack_origin`, or empty) is carried along and knows the true size of a cut record."""
    size = origin_size(origin) if origin else len(value)
    if size > limits.max_record_bytes:
        largest = limits.max_record_bytes
        text = f"The record has {size} bytes, more than wire.max_record_bytes = {largest}; send smaller records or raise the limit."
        raise WireError("too-large", text)
    return to_record(_decode(_TELEMETRY, value, KINDS), origin)


def cluster_of(value: bytes) -> str:
    """The cluster a record names, if that much of it can be read; otherwise an empty string. For keys of rejected rows."""
    try:
        check_shape(value)
        name = _CLUSTER.decode(value).cluster
    except (WireError, ValueError, RecursionError):
        return ""
    return name if is_cluster(name) else ""


def decode_command(value: bytes) -> Command:
    """One record of the COMMANDS topic. Raises WireError."""
    return to_command(_decode(_COMMAND, value, CommandRecord))


def read_command(value: bytes) -> CommandRecord:
    """One record of the COMMANDS topic with all its fields and legal names, for those who act on it. Raises WireError."""
    record = _decode(_COMMAND, value, CommandRecord)
    check_cluster(record.cluster)
    check_bundles([record.bundle], "$.bundle: {}")
    check_broker(record.source, "$.source")
    if record.destination is not None:
        check_broker(record.destination, "$.destination")
    return record


def decode_round(value: bytes) -> Round:
    """One record of the ROUNDS topic. Raises WireError."""
    return to_round(_decode(_ROUND, value, RoundRecord))


def decode_outcome(value: bytes) -> Outcome:
    """One record of the OUTCOMES topic. Raises WireError."""
    return to_outcome(_decode(_OUTCOME, value, OutcomeRecord))


def decode_rejected(value: bytes) -> RejectedRecord:
    """One record of the REJECTED topic; `original` comes as bytes. Raises WireError."""
    return _decode(_REJECTED, value, RejectedRecord)


def _decode(decoder: msgspec.json.Decoder[T], value: bytes, contract: Contract) -> T:
    check_shape(value)
    try:
        if not value.isascii():
            value.decode()  # the decoder looks only into strings that it keeps
        return decoder.decode(value)
    except (ValueError, RecursionError) as error:
        # The decoder's own error stays behind: Python's errors hold the whole record.
        raise complaint(value, contract, str(error)) from None
