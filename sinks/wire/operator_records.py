"""Encodes and decodes records of operators: approvals and the answers to them, and intents."""

import hashlib
import re
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from sinks.wire.contracts.execution import (
    LONGEST_NAME,
    LONGEST_REASON,
    ApprovalOutcomeRecord,
    ApprovalRecord,
    ApprovedCommandRecord,
    or_none,
    or_unset,
)
from sinks.wire.contracts.telemetry import IntentRecord
from sinks.wire.names_and_times import (
    CONTROL,
    check_broker,
    check_bundles,
    check_cluster,
    first_repeated,
    quoted,
)
from strategies.cluster.intent_records_and_states import Intent
from strategies.errors import WireError
from strategies.executor.objections_to_approvals import Approval, ApprovalOutcome, ApprovedCommand


def encode_approval(approval: Approval) -> bytes:
    """Encodes a record of the APPROVALS topic, without a signature."""
    return msgspec.json.encode(
        ApprovalRecord(
            v=1,
            id=approval.id,
            cluster=approval.cluster,
            action=approval.action,
            plan=approval.plan,
            commands=[ApprovedCommandRecord(*one) for one in approval.commands],
            by=approval.by,
            reason=approval.reason,
            ts=approval.ts,
            expires_at_ms=approval.expires_at_ms,
        )
    )


def encode_approval_outcome(outcome: ApprovalOutcome) -> bytes:
    """Encodes the answer to an approval, a record of the OUTCOMES topic."""
    return msgspec.json.encode(
        ApprovalOutcomeRecord(
            v=1,
            approval_id=outcome.approval_id,
            cluster=outcome.cluster,
            action=outcome.action,
            plan=outcome.plan,
            by=outcome.by,
            status=outcome.status,
            reason=outcome.reason,
            ts=outcome.ts,
        )
    )


def to_approval(record: ApprovalRecord) -> Approval:
    """The inverse of `encode_approval`. Raises WireError for what a schema cannot express."""
    check_cluster(record.cluster)
    check_person(record.by, record.reason)
    approval = Approval(
        record.id,
        record.cluster,
        record.action,
        record.plan,
        tuple(ApprovedCommand(one.id, one.digest) for one in record.commands),
        record.by,
        record.reason,
        record.ts,
        record.expires_at_ms,
    )
    if approval.is_about_plan != (record.plan is not None):
        raise WireError(
            "plan-missing" if record.plan is None else "plan-unexpected",
            f"$.plan is {'null' if record.plan is None else quoted(record.plan)} in a record that "
            f"wants to {record.action}; approve and deny name a plan, pause and resume do not.",
        )
    if approval.is_about_plan != bool(record.commands):
        raise WireError(
            "commands-missing" if approval.is_about_plan else "commands-unexpected",
            f"$.commands has {len(record.commands)} entries in a record that wants to "
            f"{record.action}; approve and deny name all commands of the plan, pause and resume "
            "none.",
        )
    for place, one in enumerate(record.commands):
        if re.fullmatch("[0-9a-f]{64}", one.digest) is None:
            raise WireError(
                "digest",
                f"$.commands[{place}].digest is {quoted(one.digest)}, no SHA-256 in hex; write the "
                "64 lower-case digits.",
            )
    if len({one.id for one in record.commands}) < len(record.commands):
        raise WireError(
            "command-listed-twice", "$.commands lists a command twice; name each command once."
        )
    return approval


def to_approval_outcome(record: ApprovalOutcomeRecord) -> ApprovalOutcome:
    """The inverse of `encode_approval_outcome`. Raises WireError."""
    check_cluster(record.cluster)
    return ApprovalOutcome(
        record.approval_id,
        record.cluster,
        record.action,
        record.plan,
        record.by,
        record.status,
        record.reason,
        record.ts,
    )


def check_person(by: str, reason: str) -> None:
    """Raises WireError unless both texts are one line that says something, short enough for the
    record.
    """
    for name, text, longest in (("by", by, LONGEST_NAME), ("reason", reason, LONGEST_REASON)):
        if len(text) > longest:
            raise WireError(
                f"{name}-length", f"$.{name} has {len(text)} characters; at most {longest} fit."
            )
        if not text.strip():
            raise WireError(
                f"{name}-empty", f"$.{name} is empty; every decision names a person and a reason."
            )
        if CONTROL.search(text):
            raise WireError(
                f"{name}-characters",
                f"$.{name} is {quoted(text)}, with control characters in it; write one line of "
                "text.",
            )


def command_digest(record: bytes) -> str:
    """SHA-256 (hex) of a command's record, as its bytes are on the topic, signature included."""
    return hashlib.sha256(record).hexdigest()


#: Field → the actions that need it, and those that may have it too.
_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "broker": (
        frozenset({"drain", "undrain", "restarting", "restarted"}),
        frozenset({"move", "split"}),
    ),
    "bundle": (frozenset({"move", "split"}), frozenset()),
    **dict.fromkeys(
        ("algorithm", "positions", "moves_children"), (frozenset(), frozenset({"split"}))
    ),
    "brokers": (frozenset({"roll"}), frozenset()),
    "roll": (
        frozenset({"restarting", "restarted", "halt", "resume", "end"}),
        frozenset({"drain", "undrain"}),
    ),
    "until_ms": (frozenset(), frozenset({"drain"})),
    "together": (frozenset(), frozenset({"drain"})),
    "max_unavailable": (frozenset(), frozenset({"roll"})),
}


def encode_intent(intent: Intent) -> bytes:
    """Encodes a record of the TELEMETRY topic, without a signature."""
    rolls = intent.action == "roll"
    return msgspec.json.encode(
        IntentRecord(
            v=1,
            cluster=intent.cluster,
            ts=intent.ts,
            id=intent.id,
            action=intent.action,
            by=intent.by,
            reason=intent.reason,
            broker=or_unset(intent.broker),
            brokers=list(intent.brokers) if rolls else UNSET,
            roll=or_unset(intent.roll),
            until_ms=or_unset(intent.until_ms),
            together=True if intent.together else UNSET,
            max_unavailable=intent.max_unavailable if rolls else UNSET,
            bundle=or_unset(intent.bundle),
            algorithm=or_unset(intent.algorithm),
            positions=list(intent.positions) or UNSET,
            moves_children=True if intent.moves_children else UNSET,
        )
    )


def to_intent(record: IntentRecord, origin: bytes) -> Intent:
    """The inverse of `encode_intent`; checks what a schema cannot express, but no signature. Raises
    WireError.
    """
    check_person(record.by, record.reason)
    _check_fields(record)
    for name, value in (("id", record.id), ("roll", record.roll)):
        if value is not UNSET and re.fullmatch("[0-9a-f]{32}", value) is None:
            raise WireError(
                "intent-id",
                f"$.{name} is {quoted(value)}, no id of an intent; write 32 lower-case hex digits.",
            )
    brokers = tuple(record.brokers or ())
    _check_brokers(record.broker, brokers)
    check_bundles([] if record.bundle is UNSET else [record.bundle], "$.bundle ({})")
    return Intent(
        record.cluster,
        record.ts,
        record.id,
        record.action,
        record.by,
        record.reason,
        or_none(record.broker),
        brokers,
        or_none(record.roll),
        or_none(record.until_ms),
        record.together is True,
        record.max_unavailable or 1,
        or_none(record.bundle),
        or_none(record.algorithm),
        tuple(record.positions or ()),
        record.moves_children is True,
        origin,
    )


def _check_fields(record: IntentRecord) -> None:
    for name, (needed, allowed) in _FIELDS.items():
        value = getattr(record, name)
        there = value is not UNSET and value != []
        if record.action in needed and not there:
            raise WireError(
                "intent-field-missing",
                f"$.{name} is not there in an intent to {record.action}; it needs one.",
            )
        if there and record.action not in needed | allowed:
            raise WireError(
                "intent-field-unexpected",
                f"$.{name} is there in an intent to {record.action}, which has none; leave it out.",
            )


def _check_brokers(broker: str | UnsetType, brokers: tuple[str, ...]) -> None:
    if broker is not UNSET:
        check_broker(broker, "$.broker")
    for index, name in enumerate(brokers):
        check_broker(name, f"$.brokers[{index}]")
    if twice := first_repeated(brokers):
        raise WireError(
            "broker-listed-twice", f"$.brokers lists {quoted(twice)} twice; list each broker once."
        )
