"""COMMANDS, key = cluster: the control topic. The order of the fields is the order of the bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sinks.wire.contracts import fields


class Reason(Struct, frozen=True):
    """The reason of a command: `code` is stable and for programs, `text` for people."""

    code: str
    text: fields.Text
    evidence: dict[str, fields.Scalar]


class ExpectedUsage(Struct, frozen=True):
    """Usage before the command and as estimated after it; null if unknown."""

    source_before: fields.Fraction | None
    source_after: fields.Fraction | None
    destination_before: fields.Fraction | None
    destination_after: fields.Fraction | None


class CommandRecord(Struct, frozen=True):
    """One command. It may be published more than once, always with the same `id`."""

    v: fields.Version
    id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=fields.LONGEST_NAME,
            description="derived from content: equal commands have equal ids",
        ),
    ]
    cluster: fields.Cluster
    round: Annotated[fields.Count, Meta(description="the round that decided it")]
    epoch: Annotated[
        fields.Count,
        Meta(
            description="executors refuse commands of an epoch older than the newest they have read"
        ),
    ]
    action: Literal["unload", "transfer", "split", "throttle"]
    bundle: fields.Bundle
    source: fields.Broker
    destination: fields.Broker | None
    strategy: str
    reason: Reason
    expected: ExpectedUsage
    issued_at_ms: fields.Milliseconds
    expires_at_ms: fields.Milliseconds
    boundaries: (
        Annotated[list[fields.Count], Meta(description="split only: hash positions")] | UnsetType
    ) = UNSET
    algorithm: (
        Annotated[str, Meta(description="split only: Pulsar's name of the split algorithm")]
        | UnsetType
    ) = UNSET
    limits: Annotated[dict[str, Any], Meta(description="throttle only: advice")] | UnsetType = UNSET
    sig: fields.Signature | UnsetType = UNSET
