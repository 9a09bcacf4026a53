"""Decodes the records of the six topics. A record that cannot be decoded, or is too large, raises
WireError; no other error is raised.
"""

from dataclasses import replace
from typing import TypeVar

import msgspec

from sinks.wire.contracts.execution import (
    ApprovalOutcomeRecord,
    ApprovalRecord,
    CommandRecord,
    OutcomeRecord,
)
from sinks.wire.contracts.job_output import RejectedRecord, RoundRecord
from sinks.wire.contracts.telemetry import KINDS, TelemetryMessage
from sinks.wire.decode_complaints import complaint
from sinks.wire.mended_load_reports import TABLE, mended
from sinks.wire.names_and_times import (
    check_broker,
    check_bundles,
    check_cluster,
    check_shape,
    check_utf8,
    quoted,
)
from sinks.wire.operator_records import to_approval, to_approval_outcome
from sinks.wire.record_encoding import to_command, to_round
from sinks.wire.record_origin import DEFAULT_LIMITS, WireLimits, origin_size
from sinks.wire.signing_keys import SigningKey, check_intent_signature
from sinks.wire.telemetry_to_engine import to_outcome, to_record
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import Command, LoadReport, Outcome, Round, TelemetryRecord
from strategies.errors import WireError
from strategies.executor.approvals_and_pauses import Approval, ApprovalOutcome

T = TypeVar("T")


class _AnswerHead(msgspec.Struct):
    approval_id: str | None = None


_TELEMETRY = msgspec.json.Decoder(TelemetryMessage)


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


def decode_command(value: bytes) -> Command:
    """Decodes one record of the COMMANDS topic. Raises WireError."""
    return to_command(_decode(value, CommandRecord))


def read_command(value: bytes) -> CommandRecord:
    """Decodes one record of the COMMANDS topic with all fields, and checks its names; used by
    executors. Raises WireError.
    """
    record = _decode(value, CommandRecord)
    check_cluster(record.cluster)
    check_bundles([record.bundle], "$.bundle: {}")
    check_broker(record.source, "$.source")
    if record.destination is not None:
        check_broker(record.destination, "$.destination")
    return record


def decode_round(value: bytes) -> Round:
    """Decodes one record of the ROUNDS topic. Raises WireError."""
    return to_round(_decode(value, RoundRecord))


def decode_outcome(value: bytes) -> Outcome:
    """Decodes the outcome of a command, a record of the OUTCOMES topic. Raises WireError."""
    return to_outcome(_decode(value, OutcomeRecord))


def decode_approval(value: bytes) -> Approval:
    """Decodes one record of the APPROVALS topic; checks no signature. Raises WireError."""
    return to_approval(_decode(value, ApprovalRecord))


def decode_approval_outcome(value: bytes) -> ApprovalOutcome:
    """Decodes the answer to an approval. Raises WireError."""
    return to_approval_outcome(_decode(value, ApprovalOutcomeRecord))


def decode_answer(value: bytes) -> Outcome | ApprovalOutcome:
    """Decodes one record of the OUTCOMES topic, which has both kinds. Raises WireError."""
    return decode_approval_outcome(value) if _answers_approval(value) else decode_outcome(value)


def _answers_approval(value: bytes) -> bool:
    if b'"approval_id"' not in value:
        return False
    try:
        check_shape(value)
        return msgspec.json.decode(value, type=_AnswerHead).approval_id is not None
    except (WireError, ValueError, RecursionError):
        return False


def decode_rejected(value: bytes) -> RejectedRecord:
    """Decodes one record of the REJECTED topic; `original` is bytes. Raises WireError."""
    return _decode(value, RejectedRecord)


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


def _decode(value: bytes, contract: type[T]) -> T:
    check_shape(value)
    try:
        check_utf8(value)  # msgspec checks only the strings that it keeps
        return msgspec.json.decode(value, type=contract)
    except (ValueError, RecursionError) as error:
        # `from None`: the decoder's own error holds the whole record.
        raise complaint(value, contract, str(error)) from None
