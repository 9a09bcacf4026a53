"""Approvals as a person gives them, for the commands that a test has sent."""

import itertools

from sinks.secret_file import Secret
from sinks.wire.operator_records import command_digest, encode_approval
from sinks.wire.record_encoding import encode_command
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command
from strategies.executor.objections_to_approvals import (
    Approval,
    ApprovalAction,
    ApprovedCommand,
    plan_id,
)
from tests.control_topic import Control, now_ms

APPROVALS_KEY = SigningKey(Secret(b"a" * 32))
_IDS = itertools.count(1)


def approval(
    *commands: Command,
    action: ApprovalAction = "approve",
    by: str = "anna",
    reason: str = "looks good",
    key: SigningKey | None = None,
    later_ms: int = 0,
    expires_at_ms: int | None = None,
) -> Approval:
    """On the plan of these commands; without any a pause or a resume. `key`: signed them."""
    records = [encode_command(one) for one in commands]
    signed = records if key is None else [key.sign(record) for record in records]
    named = tuple(
        ApprovedCommand(one.id, command_digest(record))
        for one, record in zip(commands, signed, strict=True)
    )
    first = commands[0] if commands else None
    plan = None if first is None else plan_id(first.cluster, first.epoch, first.round, named)
    now = now_ms() + later_ms
    until = max((one.expires_at_ms for one in commands), default=now + 3_600_000)
    return Approval(
        f"approval-{next(_IDS)}",
        "c",
        action,
        plan,
        named,
        by,
        reason,
        now,
        until if expires_at_ms is None else expires_at_ms,
    )


def give(control: Control, *given: Approval, key: SigningKey | None = APPROVALS_KEY) -> list[bytes]:
    """Publishes approvals, unsigned without a key; the records."""
    records = [encode_approval(one) for one in given]
    records = records if key is None else [key.sign(record) for record in records]
    control.write("approvals", records)
    return records


def answers(control: Control) -> list[tuple[str, str]]:
    """Status and reason code of every answer to an approval; the code is empty when accepted."""
    return [(one.status, (one.reason or "").partition(":")[0]) for one in control.answers()]
