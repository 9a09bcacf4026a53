"""COMMANDS (the control topic), OUTCOMES (the outcome of each command and the answer to each
approval) and APPROVALS (what people decided about plans, and who pauses an executor); key =
cluster. The order of the fields is the order of the bytes. And the types of single
fields, with their bounds, shared by all contracts.
"""

from typing import Annotated, Any, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from strategies.cluster.model import LARGEST_TIME

T = TypeVar("T")
#: Largest integer that float64 represents exactly; figures from 2^63 on are refused as not
#: measured.
LARGEST_INTEGER = 2**53
LARGEST_FIGURE = 2.0**63

LONGEST_NAME = 512

Version = Annotated[Literal[1], Meta(description="version of the contract")]
Cluster = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, description="name of the Pulsar cluster")
]
#: For the schemas; sinks/wire/names_and_times.py checks the same, faster than the decoder.
BROKER_PATTERN = r"^[^/\s]+:[0-9]{1,5}$"
BUNDLE_PATTERN = r"^[^/]+/[^/]+(/[^/]+)?/0x[0-9a-fA-F]{8}_0x([0-9a-fA-F]{8}|100000000)$"

Broker = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="broker id, host:port of its web service",
        extra_json_schema={"pattern": BROKER_PATTERN},
    ),
]
Bundle = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="tenant/namespace/0xLLLLLLLL_0xUUUUUUUU, the lower end below the upper",
        extra_json_schema={"pattern": BUNDLE_PATTERN},
    ),
]
Text = Annotated[str, Meta(description="a sentence for people")]
Milliseconds = Annotated[int, Meta(ge=0, le=LARGEST_TIME, description="ms since the epoch")]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Duration = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER, description="ms")]
Figure = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE)]
MsgRate = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE, description="messages/s")]
Throughput = Annotated[float, Meta(ge=0, lt=LARGEST_FIGURE, description="bytes/s")]


Fraction = Annotated[float, Meta(description="fraction of what is possible, 1.0 = 100 %")]
Signature = Annotated[
    str,
    Meta(
        description="HMAC-SHA256 (hex) over the bytes of the record without this field; the last "
        "one, if there is a key"
    ),
]
IntentId = Annotated[
    str,
    Meta(
        min_length=32,
        max_length=32,
        description="32 hex digits",
        extra_json_schema={"pattern": "^[0-9a-f]{32}$"},
    ),
]
Scalar = str | int | float | bool | None


def or_unset(value: T | None) -> T | UnsetType:
    """The value of a field that a record may lack; None leaves it out."""
    return UNSET if value is None else value


def or_none(value: T | UnsetType) -> T | None:
    """The inverse of `or_unset`."""
    return None if isinstance(value, UnsetType) else value


class Reason(Struct, frozen=True):
    """The reason of a command: `code` is stable and for programs, `text` for people."""

    code: str
    text: Text
    evidence: dict[str, Scalar]


class ExpectedUsage(Struct, frozen=True):
    """Usage before the command and as estimated after it; null if unknown."""

    source_before: Fraction | None
    source_after: Fraction | None
    destination_before: Fraction | None
    destination_after: Fraction | None


class CommandRecord(Struct, frozen=True):
    """One command. It may be published more than once, always with the same `id`."""

    v: Version
    id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=LONGEST_NAME,
            description="derived from content: equal commands have equal ids",
        ),
    ]
    cluster: Cluster
    round: Annotated[Count, Meta(description="the round that decided it")]
    epoch: Annotated[
        Count,
        Meta(
            description="executors refuse commands of an epoch older than the newest they have read"
        ),
    ]
    action: Literal["unload", "transfer", "split", "throttle"]
    bundle: Bundle
    source: Broker
    destination: Broker | None
    strategy: str
    reason: Reason
    expected: ExpectedUsage
    issued_at_ms: Milliseconds
    expires_at_ms: Milliseconds
    boundaries: (
        Annotated[list[Count], Meta(description="split only: hash positions")] | UnsetType
    ) = UNSET
    algorithm: (
        Annotated[str, Meta(description="split only: Pulsar's name of the split algorithm")]
        | UnsetType
    ) = UNSET
    limits: Annotated[dict[str, Any], Meta(description="throttle only: advice")] | UnsetType = UNSET
    sig: Signature | UnsetType = UNSET


class OutcomeRecord(Struct, frozen=True):
    """An executor's answer to one command. What a move cost is absent where it was not
    measured.
    """

    v: Version
    command_id: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    cluster: Cluster
    bundle: Bundle
    status: Literal["applied", "already-done", "refused", "failed", "expired", "dry-run"]
    reason: str | None
    owner_before: Broker | None
    owner_after: Broker | None
    took_ms: Duration
    ts: Milliseconds
    unowned_ms: (
        Annotated[
            Duration,
            Meta(description="ms from the answer to the unload until a broker owned the bundle"),
        ]
        | UnsetType
    ) = UNSET
    first_message_ms: (
        Annotated[
            Duration,
            Meta(
                description="ms from the answer to the unload until the new owner had a message of "
                "a topic that had traffic"
            ),
        ]
        | UnsetType
    ) = UNSET
    topics: Annotated[Count, Meta(description="topics of the bundle")] | UnsetType = UNSET
    unloads: (
        Annotated[Count, Meta(description="how often the bundle was unloaded, a repair included")]
        | UnsetType
    ) = UNSET
    manager: (
        Annotated[Literal["modular", "extensible"], Meta(description="load manager of the cluster")]
        | UnsetType
    ) = UNSET


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
