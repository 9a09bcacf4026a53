"""Encodes and decodes the records of the six topics. A record that cannot be decoded raises
WireError; no other error is raised.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import msgspec

from sinks.wire.approvals import (
    encode_approval,
    encode_approval_outcome,
    to_approval,
    to_approval_outcome,
)
from sinks.wire.complaints import Contract, complaint
from sinks.wire.contracts.approvals import ApprovalOutcomeRecord, ApprovalRecord
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
    encode_round,
    to_command,
    to_round,
)
from sinks.wire.intents import encode_intent
from sinks.wire.mending import TABLE, mended
from sinks.wire.names import check_broker, check_bundles, check_cluster, is_cluster, quoted
from sinks.wire.nesting_limits import check_shape, check_utf8
from sinks.wire.origin import origin_size
from sinks.wire.signing import SigningKey, check_intent_signature
from sinks.wire.size_limits import DEFAULT_LIMITS, WireLimits, clip
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import Command, LoadReport, Outcome, Round, TelemetryRecord
from strategies.errors import WireError
from strategies.executor.approvals import Approval, ApprovalOutcome

__all__ = [
    "RejectedRecord",
    "WireLimits",
    "clip",
    "cluster_of",
    "decode",
    "decode_answer",
    "decode_approval",
    "decode_approval_outcome",
    "decode_command",
    "decode_outcome",
    "decode_rejected",
    "decode_round",
    "encode_approval",
    "encode_approval_outcome",
    "encode_command",
    "encode_intent",
    "encode_outcome",
    "encode_outcome_telemetry",
    "encode_round",
    "read_command",
    "to_command",
]

T = TypeVar("T")


class _ClusterOnly(msgspec.Struct):
    cluster: str


class _AnswerHead(msgspec.Struct):
    approval_id: str | None = None


_TELEMETRY = msgspec.json.Decoder(TelemetryMessage)
_CLUSTER = msgspec.json.Decoder(_ClusterOnly)
_ANSWER = msgspec.json.Decoder(_AnswerHead)
_COMMAND = msgspec.json.Decoder(CommandRecord)
_ROUND = msgspec.json.Decoder(RoundRecord)
_OUTCOME = msgspec.json.Decoder(OutcomeRecord)
_REJECTED = msgspec.json.Decoder(RejectedRecord)
_APPROVAL = msgspec.json.Decoder(ApprovalRecord)
_APPROVAL_OUTCOME = msgspec.json.Decoder(ApprovalOutcomeRecord)


def decode(
    value: bytes,
    origin: bytes,
    limits: WireLimits = DEFAULT_LIMITS,
    intents_key: SigningKey | None = None,
    *,
    cluster: str | None = None,
) -> TelemetryRecord:
    """Decodes one telemetry record. `origin` (from `pack_origin`, or empty) travels with it and
    holds the true size of a cut record. `intents_key`: intents must be signed with it; None =
    unchecked. `cluster`: what `peek` has found, so that a record that names another one after it
    is refused. Raises WireError.
    """
    size = origin_size(origin) if origin else len(value)
    if size > limits.max_record_bytes:
        raise WireError(
            "too-large",
            f"The record has {size} bytes, more than wire.max_record_bytes = "
            f"{limits.max_record_bytes}; send smaller records or raise the limit.",
        )
    record = _telemetry(value, origin)
    if intents_key is not None and isinstance(record, Intent):
        check_intent_signature(value, intents_key)
    if cluster is not None and record.cluster != cluster:
        raise WireError(
            "cluster-twice",
            f"The record names two clusters, {quoted(cluster)} and {quoted(record.cluster)}; "
            "send $.cluster once.",
        )
    return record


def cluster_of(value: bytes) -> str:
    """The cluster that a record names, or an empty string if it cannot be read. Used as the key of
    rejected rows.
    """
    try:
        check_shape(value)
        name = _CLUSTER.decode(value).cluster
    except (WireError, ValueError, RecursionError):
        return ""
    return name if is_cluster(name) else ""


def decode_command(value: bytes) -> Command:
    """Decodes one record of the COMMANDS topic. Raises WireError."""
    return to_command(_decode(_COMMAND, value, CommandRecord))


def read_command(value: bytes) -> CommandRecord:
    """Decodes one record of the COMMANDS topic with all fields, and checks its names; used by
    executors. Raises WireError.
    """
    record = _decode(_COMMAND, value, CommandRecord)
    check_cluster(record.cluster)
    check_bundles([record.bundle], "$.bundle: {}")
    check_broker(record.source, "$.source")
    if record.destination is not None:
        check_broker(record.destination, "$.destination")
    return record


def decode_round(value: bytes) -> Round:
    """Decodes one record of the ROUNDS topic. Raises WireError."""
    return to_round(_decode(_ROUND, value, RoundRecord))


def decode_outcome(value: bytes) -> Outcome:
    """Decodes the outcome of a command, a record of the OUTCOMES topic. Raises WireError."""
    return to_outcome(_decode(_OUTCOME, value, OutcomeRecord))


def decode_approval(value: bytes) -> Approval:
    """Decodes one record of the APPROVALS topic; checks no signature. Raises WireError."""
    return to_approval(_decode(_APPROVAL, value, ApprovalRecord))


def decode_approval_outcome(value: bytes) -> ApprovalOutcome:
    """Decodes the answer to an approval. Raises WireError."""
    return to_approval_outcome(_decode(_APPROVAL_OUTCOME, value, ApprovalOutcomeRecord))


def decode_answer(value: bytes) -> Outcome | ApprovalOutcome:
    """Decodes one record of the OUTCOMES topic, which has both kinds. Raises WireError."""
    return decode_approval_outcome(value) if _answers_approval(value) else decode_outcome(value)


def _answers_approval(value: bytes) -> bool:
    if b'"approval_id"' not in value:
        return False
    try:
        check_shape(value)
        return _ANSWER.decode(value).approval_id is not None
    except (WireError, ValueError, RecursionError):
        return False


def decode_rejected(value: bytes) -> RejectedRecord:
    """Decodes one record of the REJECTED topic; `original` is bytes. Raises WireError."""
    return _decode(_REJECTED, value, RejectedRecord)


def _telemetry(value: bytes, origin: bytes) -> TelemetryRecord:
    """The record, or what is of use in it. Raises WireError."""
    check_shape(value)
    try:
        check_utf8(value)  # msgspec checks only the strings that it keeps
        return to_record(_TELEMETRY.decode(value), origin)
    except (ValueError, RecursionError, WireError) as error:
        found = _mended(value, origin)
        if found is not None:
            return found
        if isinstance(error, WireError):
            raise
        # `from None`: the decoder's own error holds the whole record.
        raise complaint(value, KINDS, str(error)) from None


def _mended(value: bytes, origin: bytes) -> TelemetryRecord | None:
    found = mended(value)
    if found is None:
        return None
    try:
        record = to_record(found.message, origin)
    except WireError:
        return None
    if not isinstance(record, LoadReport):
        return record
    bundles = None if TABLE in found.left_out else record.bundles
    return replace(record, bundles=bundles, left_out=tuple(found.left_out.values()))


def _decode(decoder: msgspec.json.Decoder[T], value: bytes, contract: Contract) -> T:
    check_shape(value)
    try:
        check_utf8(value)  # msgspec checks only the strings that it keeps
        return decoder.decode(value)
    except (ValueError, RecursionError) as error:
        # `from None`: the decoder's own error holds the whole record.
        raise complaint(value, contract, str(error)) from None
