"""OUTCOMES, key = cluster: the outcome of each command."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sinks.wire.contracts.fields import (
    LONGEST_NAME,
    Broker,
    Bundle,
    Cluster,
    Duration,
    Milliseconds,
    Version,
)


class OutcomeRecord(Struct, frozen=True):
    """An executor's answer to one command."""

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
