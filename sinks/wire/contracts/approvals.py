"""APPROVALS, key = cluster: what people decided about plans, and who pauses an executor. The answer
to each is a record on OUTCOMES.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sinks.wire.contracts.fields import (
    LONGEST_NAME,
    Cluster,
    Milliseconds,
    Signature,
    Text,
    Version,
)

#: Characters.
LONGEST_REASON = 2_000

_Action = Annotated[
    Literal["approve", "deny", "pause", "resume"],
    Meta(description="approve and deny decide on a plan, pause and resume on an executor"),
]
_PlanId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="id of the plan: epoch, round, and a digest of its commands",
    ),
]
_Id = Annotated[
    str,
    Meta(min_length=1, max_length=LONGEST_NAME, description="random; a second record is a replay"),
]
_Person = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, description="the person who decided")
]


class ApprovedCommandRecord(Struct, frozen=True):
    """A command of the plan. The digest binds the decision to the command's bytes."""

    id: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    digest: Annotated[
        str,
        Meta(
            description="SHA-256 (hex) of the command's record, signature included",
            extra_json_schema={"pattern": "^[0-9a-f]{64}$"},
        ),
    ]


class ApprovalRecord(Struct, frozen=True):
    """One decision of a person, signed with the approvals key."""

    v: Version
    id: _Id
    cluster: Cluster
    action: _Action
    plan: Annotated[_PlanId | None, Meta(description="null for pause and resume")]
    commands: Annotated[
        list[ApprovedCommandRecord], Meta(description="of the plan; empty for pause and resume")
    ]
    by: _Person
    reason: Annotated[
        str,
        Meta(
            description="for people",
            extra_json_schema={"minLength": 1, "maxLength": LONGEST_REASON},
        ),
    ]
    ts: Milliseconds
    expires_at_ms: Annotated[
        Milliseconds, Meta(description="an executor that reads the record later ignores it")
    ]
    sig: Signature | UnsetType = UNSET


class ApprovalOutcomeRecord(Struct, frozen=True):
    """On OUTCOMES: an executor's answer to one approval record."""

    v: Version
    approval_id: _Id
    cluster: Cluster
    action: _Action
    plan: Annotated[_PlanId | None, Meta(description="null for pause and resume")]
    by: _Person
    status: Literal["accepted", "refused", "expired"]
    reason: Annotated[Text | None, Meta(description="`code: sentence`; null when accepted")]
    ts: Milliseconds
