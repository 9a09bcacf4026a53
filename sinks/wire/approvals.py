"""Encodes and decodes approval records and the answers to them."""

from __future__ import annotations

import re

import msgspec

from sinks.wire.contracts.approvals import (
    LONGEST_REASON,
    ApprovalOutcomeRecord,
    ApprovalRecord,
    ApprovedCommandRecord,
)
from sinks.wire.contracts.fields import LONGEST_NAME
from sinks.wire.names import check_cluster, quoted
from strategies.errors import WireError
from strategies.executor.approvals import Approval, ApprovalOutcome, ApprovedCommand

_DIGEST = re.compile("[0-9a-f]{64}")
_ENCODER = msgspec.json.Encoder()
#: Characters that a line for people cannot contain: controls, line breaks, marks that change the
#: direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def encode_approval(approval: Approval) -> bytes:
    """Encodes a record of the APPROVALS topic, without a signature."""
    return _ENCODER.encode(
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
    return _ENCODER.encode(
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
        if _DIGEST.fullmatch(one.digest) is None:
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
        if _CONTROL.search(text):
            raise WireError(
                f"{name}-characters",
                f"$.{name} is {quoted(text)}, with control characters in it; write one line of "
                "text.",
            )
