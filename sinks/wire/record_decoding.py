"""Decodes records of all topics, and packs a record's position, limits of its size and its original
bytes into one value that travels with it. Peeks at cluster and time without decoding, so that a
record beyond its cluster's quota costs little.
"""

import re
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple, TypeVar

import msgspec
import zstandard

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
    is_cluster,
    other_unit,
    quoted,
)
from sinks.wire.nan_and_whole_numbers import with_plain_numbers
from sinks.wire.operator_records import to_approval, to_approval_outcome
from sinks.wire.record_encoding import to_command, to_round
from sinks.wire.signing_keys import SigningKey, check_intent_signature
from sinks.wire.telemetry_to_engine import to_outcome, to_record
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import (
    LARGEST_TIME,
    Command,
    LoadReport,
    Outcome,
    Round,
    TelemetryRecord,
)
from strategies.errors import ContractError, WireError
from strategies.executor.objections_to_approvals import Approval, ApprovalOutcome
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Limits of the wire format. Readers cut a record larger than `max_record_bytes` to
    `kept_bytes` and pass on its true size.
    """

    max_record_bytes: Annotated[
        int,
        Setting(
            "Largest record that is decoded; a larger one goes to the rejected topic",
            "bytes",
            ge=1024,
            le=2**30,
        ),
    ] = 8 * 2**20
    #: Part of a too large record that the rejected topic keeps.
    kept_bytes: int = 64 * 2**10


DEFAULT_LIMITS = WireLimits()


def clip(value: bytes, limits: WireLimits) -> bytes:
    """The value itself, or its beginning if it is too large."""
    return value if len(value) <= limits.max_record_bytes else value[: limits.kept_bytes]


class Position(NamedTuple):
    """Sorted by topic, partition, offset. In a file topic: segment number and byte offset in the
    segment.
    """

    topic: str
    partition: int
    offset: int


#: Version, flags, length of the topic's name, partition, offset, true size of the record.
_HEADER = struct.Struct(">BBHqqq")
_VERSION = 1
#: The flag of an original in the state that an earlier version has compressed.
_COMPRESSED = 1
#: Bytes of a rejected record's original. As base64 it fits into the default record limits of Kafka
#: (1 MB) and Pulsar (5 MiB).
LARGEST_ORIGINAL = 512 * 2**10


@dataclass(frozen=True, slots=True)
class Origin:
    """`value`: the original bytes, or their beginning if `truncated`. `size`: bytes of the whole
    record.
    """

    position: Position
    value: bytes
    size: int

    @property
    def truncated(self) -> bool:
        return len(self.value) < self.size


def pack_origin(position: Position, value: bytes, size: int | None = None) -> bytes:
    """Keeps at most LARGEST_ORIGINAL bytes of `value`, so that a record of 8 MB is not copied.
    `size`: bytes of the whole record, if `value` is cut.
    """
    topic = position.topic.encode()
    header = _HEADER.pack(
        _VERSION,
        0,
        len(topic),
        position.partition,
        position.offset,
        len(value) if size is None else size,
    )
    return header + topic + value[:LARGEST_ORIGINAL]


def origin_size(origin: bytes) -> int:
    """Bytes of the whole record, read from the header alone."""
    return int(_header(origin)[5])


def unpack_origin(origin: bytes) -> Origin:
    """The inverse of `pack_origin`. Raises ContractError for bytes that `pack_origin` did not
    write.
    """
    _, flags, topic_length, partition, offset, size = _header(origin)
    start = _HEADER.size + topic_length
    body = origin[start:]
    value = zstandard.ZstdDecompressor().decompress(body) if flags & _COMPRESSED else body
    return Origin(Position(origin[_HEADER.size : start].decode(), partition, offset), value, size)


def _header(origin: bytes) -> tuple[int, int, int, int, int, int]:
    if len(origin) < _HEADER.size or origin[0] != _VERSION:
        raise ContractError(
            "An origin must be packed by this version; clear the checkpoint or continue it "
            "with the version that wrote it."
        )
    return _HEADER.unpack_from(origin)


class _ClusterOnly(msgspec.Struct):
    cluster: str


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


T = TypeVar("T")


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


def read_command(value: bytes) -> Command:
    """Decodes one record of the COMMANDS topic with all fields, and checks its names; used by
    executors. Raises WireError.
    """
    record = _decode(value, CommandRecord)
    check_cluster(record.cluster)
    check_bundles([record.bundle], "$.bundle: {}")
    check_broker(record.source, "$.source")
    if record.destination is not None:
        check_broker(record.destination, "$.destination")
    return to_command(record)


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
    try:
        return decode_outcome(value)
    except WireError:
        if b'"approval_id"' not in value:
            raise
        return decode_approval_outcome(value)


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
