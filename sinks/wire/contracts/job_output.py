"""The job's output beside commands: ROUNDS, key = cluster, one record per round, which
`explain`, reports and dashboards read; REJECTED, every record that could not be used, with its
position and original bytes.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sinks.wire.contracts.execution import (
    Broker,
    Cluster,
    Count,
    Duration,
    Fraction,
    IntentId,
    Milliseconds,
    Scalar,
    Signature,
    Text,
    Version,
)
from strategies.cluster.intent_records_and_states import IntentAction, IntentStateCode, RollPhase
from strategies.states_and_advice_of_codes import StateCode


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


class CertificateRecord(Struct, frozen=True):
    """Proven bounds: how near the round's plan is to the best possible one."""

    spread: Annotated[Fraction, Meta(description="max - min of usage after the round's moves")]
    best_spread: Annotated[
        Fraction | None,
        Meta(
            description="no assignment of whole bundles has a smaller spread; null: reports list "
            "only some bundles"
        ),
    ]
    gap: Annotated[Fraction | None, Meta(description="spread - best_spread, at least 0")]
    moved: Annotated[float, Meta(description="bytes/s that the round moves")]
    least_to_move: Annotated[
        float | None, Meta(description="bytes/s that must move at least to reach the spread")
    ]


class ForecastRecord(Struct, frozen=True):
    """How well the strategy predicts the effect of its moves."""

    error: Annotated[
        Fraction | None, Meta(description="mean difference of predicted and seen usage")
    ]
    useless_rounds: Annotated[
        Count, Meta(description="rounds of moves in a row that brought less than a tenth")
    ]
    returns: Annotated[
        Count, Meta(description="moves within the rest time that took a bundle back")
    ]
    useless_moves: Annotated[Count, Meta(description="moves of the useless rounds")] = 0


class StateRecord(Struct, frozen=True):
    """What the round amounts to, and what to do."""

    code: StateCode
    text: Annotated[Text, Meta(description="with the code of the deciding skip in brackets")]
    advice: Annotated[Text, Meta(description="what to do")]


class IntentStatusRecord(Struct, frozen=True):
    """What the round says about one intent of an operator, or about the child that its own splits
    let move. Ended and refused ones stay for an hour.
    """

    id: Annotated[IntentId, Meta(description="of the drain, the roll or the refused record")]
    action: IntentAction
    state: IntentStateCode
    text: Annotated[Text, Meta(description="with a code in brackets where something is in the way")]
    advice: Annotated[Text, Meta(description="what to do")]
    by: Annotated[str, Meta(description="the person, or the round: `round 12`")]
    reason: str
    asked_ms: Annotated[Milliseconds, Meta(description="time of the record, or of the round")]
    since_ms: Annotated[Milliseconds, Meta(description="since when in this state")]
    broker: Broker | None
    roll: Annotated[IntentId | None, Meta(description="the roll that the drain belongs to")]
    until_ms: Annotated[Milliseconds | None, Meta(description="when the drain ends by itself")]
    left: Annotated[Count | None, Meta(description="bundles that are still on the broker")]
    total: Annotated[
        Count | None, Meta(description="most bundles that it has had since the drain began")
    ]
    left_ms: Annotated[Duration | None, Meta(description="estimate of the time until it is empty")]
    error_ms: Annotated[Duration | None, Meta(description="how wrong the estimate may be")]
    phases: Annotated[dict[str, RollPhase], Meta(description="of a roll: per broker")]
    record: Annotated[IntentId | None, Meta(description="of a roll: its last accepted record")]
    bundle: Annotated[str, Meta(description="of a move or a split")] | UnsetType = UNSET


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
    certificate: CertificateRecord | UnsetType = UNSET
    forecast: ForecastRecord | UnsetType = UNSET
    state: StateRecord | UnsetType = UNSET
    intents: list[IntentStatusRecord] | UnsetType = UNSET
    counted: Annotated[
        Count | UnsetType,
        Meta(description="commanded moves that usage counts as done before reports show them"),
    ] = UNSET
    measured: Annotated[
        dict[str, Fraction] | UnsetType,
        Meta(description="usage as reported, of the brokers for which it is another one"),
    ] = UNSET
    sig: Signature | UnsetType = UNSET


class RejectedRecord(Struct, frozen=True):
    """A record that could not be used: its position, the reason and the original bytes."""

    v: Version
    topic: str
    partition: Annotated[Count, Meta(description="of a file topic: the segment's number")]
    offset: Annotated[Count, Meta(description="of a file topic: the byte in the segment")]
    cluster: Cluster | None
    code: Annotated[str, Meta(min_length=1, description="stable, for programs")]
    text: Text
    original: Annotated[
        bytes, Meta(description="base64 of the record, or of its beginning when `truncated`")
    ]
    size: Annotated[Count, Meta(description="bytes of the whole record")]
    truncated: bool
