"""ROUNDS, key = cluster: one record per round; what `explain`, reports and dashboards read."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sinks.wire.contracts.fields import (
    Broker,
    Cluster,
    Count,
    Fraction,
    Milliseconds,
    Scalar,
    Signature,
    Text,
    Version,
)


class SpreadRecord(Struct, frozen=True):
    """Spread of figures over brokers."""

    range: Annotated[float, Meta(description="max - min")]
    std: Annotated[float, Meta(description="population standard deviation")]
    max_over_mean: Annotated[float, Meta(description="0 when the mean is 0")]


class SkipRecord(Struct, frozen=True):
    """Candidates that were skipped for one common reason; `broker`: the owner of skipped
    bundles.
    """

    subject: Literal["cluster", "broker", "bundle"]
    names: list[str]
    code: str
    text: Text
    broker: Broker | None
    evidence: dict[str, Scalar]


class RoundRecord(Struct, frozen=True):
    """One decision for one cluster: its input, commands, skips and expected effect."""

    v: Version
    cluster: Cluster
    round: Annotated[Count, Meta(description="running number")]
    epoch: Count
    ts: Milliseconds
    closed_by: Literal["sweep", "all-reported", "lateness"]
    strategy: str
    brokers: Annotated[list[Broker], Meta(description="brokers that were judged")]
    stale: Annotated[dict[str, str], Meta(description="brokers left out, with the reason")]
    usage: Annotated[dict[str, Fraction], Meta(description="per broker, now")]
    usage_after: Annotated[
        dict[str, Fraction], Meta(description="per broker, as estimated after the commands")
    ]
    spread: SpreadRecord
    spread_after: SpreadRecord
    throughput_spread: Annotated[SpreadRecord, Meta(description="of bytes/s per broker, now")]
    commands: Annotated[list[str], Meta(description="ids")]
    skips: list[SkipRecord]
    digest: Annotated[str, Meta(description="of the whole input of the round")]
    version: Annotated[str, Meta(description="of the product")]
    sig: Signature | UnsetType = UNSET
