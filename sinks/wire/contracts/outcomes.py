"""OUTCOMES, key = cluster: the outcome of each command."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sinks.wire.contracts.fields import (
    LONGEST_NAME,
    Broker,
    Bundle,
    Cluster,
    Count,
    Duration,
    Milliseconds,
    Version,
)


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
