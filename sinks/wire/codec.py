"""Encodes and decodes the records of the six topics. A record that cannot be decoded raises
WireError; no other error is raised. Peeks at cluster and time without decoding, so that a record
beyond its cluster's quota costs little.
"""

import re
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeVar

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
from sinks.wire.decoding import to_outcome, to_record
from sinks.wire.encoding import (
    encode_command,
    encode_outcome,
    encode_outcome_telemetry,
    encode_round,
    to_command,
    to_round,
)
from sinks.wire.names_and_times import (
    check_broker,
    check_bundles,
    check_cluster,
    check_shape,
    check_utf8,
    is_cluster,
    other_unit,
    quoted,
)
from sinks.wire.operator_records import (
    encode_approval,
    encode_approval_outcome,
    encode_intent,
    to_approval,
    to_approval_outcome,
)
from sinks.wire.partial_reports import TABLE, mended
from sinks.wire.plain_numbers import with_plain_numbers
from sinks.wire.record_origin import DEFAULT_LIMITS, WireLimits, clip, origin_size
from sinks.wire.signing_keys import SigningKey, check_intent_signature
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import (
    LARGEST_TIME,
    Command,
    LoadReport,
    Outcome,
    Round,
    TelemetryRecord,
)
from strategies.errors import WireError
from strategies.executor.approvals_and_pauses import Approval, ApprovalOutcome

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
        name = msgspec.json.decode(value, type=_ClusterOnly).cluster
    except (WireError, ValueError, RecursionError):
        return ""
    return name if is_cluster(name) else ""


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


#: As much as `peek` reads of a record in the usual order.
PEEKED_BYTES = 2 * 2**10
#: Above this size, a source may pass on the beginning of a record only.
LARGE_BYTES = 2**18
#: The order that brokers' collectors write, with or without blanks.
_USUAL = re.compile(
    rb'\{"v": ?1, ?"kind": ?"([a-z-]{1,32})", ?"cluster": ?"([^"\\\x80-\xff]{1,512})", ?'
    rb'(?:"broker": ?"[^"\\]{1,512}", ?)?"ts": ?([0-9]{1,16})[,}]'
)


class Peeked(NamedTuple):
    """`cluster`: empty if it cannot be read. `ts`: ms since the epoch. `has_quota`: the cluster's
    quota applies: not to an intent, which a person sends, nor where either is unusable.
    """

    cluster: str
    ts: int = 0
    has_quota: bool = False


class _Skimmed(msgspec.Struct):
    kind: str
    cluster: str
    ts: int


_SKIM = msgspec.json.Decoder(_Skimmed)


def peek(value: bytes) -> Peeked:
    """Cluster and time of a record. One in another order is read to its end for them, which is a
    small part of decoding it.
    """
    usual = _USUAL.match(value)
    if usual is None:
        found = _skimmed(value)
    else:
        kind, cluster, ts = usual.groups()
        found = _Skimmed(kind.decode(), cluster.decode(), int(ts))
    if found is None or not is_cluster(found.cluster):
        return Peeked(cluster_of(value))
    usable = 0 <= found.ts <= LARGEST_TIME and not other_unit(found.ts)
    return Peeked(found.cluster, found.ts, usable and found.kind != "intent")


def _skimmed(value: bytes) -> _Skimmed | None:
    with suppress(ValueError, RecursionError):
        return _SKIM.decode(value)
    with suppress(ValueError, RecursionError):  # decoding mends numbers that are no JSON
        return _SKIM.decode(with_plain_numbers(value))
    return None
