"""TELEMETRY, key = cluster: reports of brokers, collectors and executors, and intents of operators.
Unknown fields are
ignored, unknown kinds are rejected.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from sinks.wire.contracts.execution import (
    BUNDLE_PATTERN,
    LARGEST_FIGURE,
    LONGEST_NAME,
    LONGEST_REASON,
    Broker,
    Bundle,
    Cluster,
    Count,
    Figure,
    IntentId,
    Milliseconds,
    MsgRate,
    OutcomeRecord,
    Signature,
    Throughput,
    Version,
)
from strategies.bundles import FULL
from strategies.cluster.intent_records_and_states import IntentAction

#: Usage and limit of what a broker has not measured yet (Pulsar's initial value).
NOT_MEASURED = -1.0
#: Limit of a bandwidth that a broker reports for each network card whose speed it cannot read, as
#: in many containers; no machine has more than a thousand of them.
UNKNOWN_SPEED, _MOST_UNKNOWN = -1000.0, -1_000_000.0
#: A limit below this is a wrong measurement; usage divided by it would be infinite in float32.
SMALLEST_LIMIT = 1e-6
#: Positions of one split.
MOST_POSITIONS = 100
#: Not negative, except NOT_MEASURED for usage and limit alike, and a multiple of UNKNOWN_SPEED as
#: limit.
ResourceFigure = Annotated[
    float,
    Meta(
        ge=_MOST_UNKNOWN,
        lt=LARGEST_FIGURE,
        description="not negative; -1 for usage and limit alike: not "
        "measured yet; -1000 as limit: a "
        "network card whose speed is unknown, -2000: two of them",
    ),
]


def is_measured_or_not(usage: float, limit: float) -> bool:
    """True if these are figures of a resource, or say that it is not measured."""
    if not (usage < LARGEST_FIGURE and _MOST_UNKNOWN <= limit < LARGEST_FIGURE):
        return False
    if usage < 0 or limit < 0:
        return usage == limit == NOT_MEASURED or (usage >= 0 and limit % UNKNOWN_SPEED == 0)
    return limit == 0 or limit >= SMALLEST_LIMIT


class ResourceUsage(Struct, frozen=True, gc=False):
    """Usage and limit of one resource in the broker's own unit (cpu: percent of one core, memory:
    MiB, bandwidth: kbit/s).
    """

    usage: ResourceFigure
    limit: ResourceFigure


#: For the schema; `is_measured_or_not` checks the same. Pulsar starts with -1 for both.
MeasuredOrNot = Annotated[
    ResourceUsage,
    Meta(
        extra_json_schema={
            "anyOf": [
                {"properties": {"usage": {"minimum": 0}, "limit": {"minimum": 0}}},
                {"properties": {"usage": {"const": -1}, "limit": {"const": -1}}},
                {
                    "properties": {
                        "usage": {"minimum": 0},
                        "limit": {"maximum": UNKNOWN_SPEED, "multipleOf": -UNKNOWN_SPEED},
                    }
                },
            ]
        }
    ),
]


class NamespaceBundleStats(Struct, frozen=True, gc=False):
    """Figures of one bundle as its broker measured them."""

    msgRateIn: MsgRate
    msgThroughputIn: Throughput
    msgRateOut: MsgRate
    msgThroughputOut: Throughput
    consumerCount: Count
    producerCount: Count
    topics: Count


class BrokerFigures(Struct, frozen=True):
    """Figures of a broker, reported by both load managers."""

    cpu: MeasuredOrNot
    memory: MeasuredOrNot
    directMemory: MeasuredOrNot
    bandwidthIn: MeasuredOrNot
    bandwidthOut: MeasuredOrNot
    msgThroughputIn: Throughput
    msgThroughputOut: Throughput
    msgRateIn: MsgRate
    msgRateOut: MsgRate


class LocalBrokerData(BrokerFigures, frozen=True):
    """Answer of `GET /admin/v2/broker-stats/load-report` (modular load manager), verbatim; other
    fields are ignored.
    """

    lastStats: Annotated[
        dict[str, NamespaceBundleStats],
        Meta(
            description="figures per bundle name",
            extra_json_schema={"propertyNames": {"pattern": BUNDLE_PATTERN}},
        ),
    ]
    bundles: Annotated[list[Bundle], Meta(description="all bundles the broker serves")] | None = (
        None
    )
    startTimestamp: (
        Annotated[int, Meta(description="start of the broker by its own clock, in ms")] | None
    ) = None


class BrokerLoadData(BrokerFigures, frozen=True):
    """Message of `loadbalancer-broker-load-data` (extensible load manager), verbatim; other fields
    are ignored.
    """

    bundleCount: Count
    weightedMaxEMA: (
        Annotated[Figure, Meta(description="averaged largest weighted resource, 1.0 = 100 %")]
        | None
    ) = None
    msgThroughputEMA: Annotated[Figure, Meta(description="averaged bytes/s in + out")] | None = None
    updatedAt: (
        Annotated[Milliseconds, Meta(description="time of these averages by the broker's clock")]
        | None
    ) = None


class TopBundle(Struct, frozen=True):
    """One entry of the extensible load manager's list of busy bundles."""

    bundleName: Bundle
    stats: NamespaceBundleStats


class TopBundlesLoadData(Struct, frozen=True):
    """Message of `loadbalancer-top-bundles-load-data` (extensible load manager), verbatim."""

    topBundlesLoadData: list[TopBundle]


class ClusterRecord(Struct, frozen=True):
    """The first fields of records about a cluster."""

    v: Version
    cluster: Cluster
    ts: Milliseconds


class BrokerRecord(Struct, frozen=True):
    """The first fields of reports of a broker."""

    v: Version
    cluster: Cluster
    broker: Broker
    ts: Milliseconds


class LoadReportRecord(BrokerRecord, frozen=True, tag_field="kind", tag="load-report"):
    """A modular broker's load report."""

    report: LocalBrokerData


class BrokerLoadRecord(BrokerRecord, frozen=True, tag_field="kind", tag="broker-load-data"):
    """An extensible broker's figures; null withdraws them."""

    report: BrokerLoadData | None


class TopBundlesRecord(BrokerRecord, frozen=True, tag_field="kind", tag="top-bundles-load-data"):
    """An extensible broker's busiest bundles; null withdraws them."""

    report: TopBundlesLoadData | None


class SweepRecord(ClusterRecord, frozen=True, tag_field="kind", tag="sweep"):
    """End of one collection pass over all brokers."""

    sweep: Annotated[Count, Meta(description="running number of the pass")]
    brokers: Annotated[list[Broker], Meta(description="brokers that answered")]
    missing: Annotated[
        dict[str, str], Meta(description="brokers that did not answer, with the reason")
    ]
    answering: (
        Annotated[
            list[Broker],
            Meta(description="those of `missing` that answer, but have no figures at present"),
        ]
        | UnsetType
    ) = UNSET
    leader: Annotated[Broker, Meta(description="the broker that leads the cluster")] | UnsetType = (
        UNSET
    )
    shedding: (
        Annotated[bool, Meta(description="whether Pulsar's own shedder is on at the leader")]
        | UnsetType
    ) = UNSET


class PoliciesRecord(ClusterRecord, frozen=True, tag_field="kind", tag="policies"):
    """Complete snapshot of isolation policies, anti-affinity groups, failure domains and topic
    counts, sent after each change.
    """

    report: dict[str, Any]


class OutcomeReportRecord(ClusterRecord, frozen=True, tag_field="kind", tag="outcome"):
    """An executor's outcome, returned to the engine; `report` is the object of the OUTCOMES topic,
    with the same cluster.
    """

    report: OutcomeRecord


class IntentRecord(ClusterRecord, frozen=True, tag_field="kind", tag="intent"):
    """What an operator wants: drain a broker, roll a cluster, move or split a bundle. Signed, if
    there is a key for it.
    """

    id: Annotated[
        IntentId, Meta(description="random, new for each record; a repeated one has no effect")
    ]
    action: IntentAction
    by: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="the person")]
    reason: Annotated[
        str,
        Meta(
            description="for people",
            extra_json_schema={"minLength": 1, "maxLength": LONGEST_REASON},
        ),
    ]
    broker: (
        Annotated[Broker, Meta(description="of a move or a split: the destination")] | UnsetType
    ) = UNSET
    bundle: Annotated[Bundle, Meta(description="that moves or is split")] | UnsetType = UNSET
    brokers: Annotated[list[Broker], Meta(description="of a roll; at least one")] | UnsetType = (
        UNSET
    )
    roll: (
        Annotated[IntentId, Meta(description="the roll that the record belongs to")] | UnsetType
    ) = UNSET
    until_ms: (
        Annotated[Milliseconds, Meta(description="when a drain ends by itself")] | UnsetType
    ) = UNSET
    together: (
        Annotated[bool, Meta(description="the drain may begin while another one lasts")] | UnsetType
    ) = UNSET
    max_unavailable: (
        Annotated[int, Meta(ge=1, le=1_000, description="brokers of a roll at a time")] | UnsetType
    ) = UNSET
    algorithm: (
        Annotated[
            str, Meta(min_length=1, max_length=LONGEST_NAME, description="Pulsar's, of a split")
        ]
        | UnsetType
    ) = UNSET
    positions: (
        Annotated[
            list[Annotated[int, Meta(ge=0, le=FULL)]],
            Meta(
                max_length=MOST_POSITIONS,
                description="of a split: hashes inside the bundle, ascending",
            ),
        ]
        | UnsetType
    ) = UNSET
    moves_children: (
        Annotated[
            bool, Meta(description="of a split: all new bundles but the first one are to move")
        ]
        | UnsetType
    ) = UNSET
    sig: Signature | UnsetType = UNSET


class BundleTopicsReport(Struct, frozen=True, omit_defaults=True):
    """`report` of the note `topics-of-bundle`: the loaded topics of one hot bundle."""

    bundle: str
    topics: Annotated[
        list[tuple[str, MsgRate, Throughput]],
        Meta(description="name, messages/s and bytes/s, in + out; the largest first"),
    ]
    others: Annotated[Count, Meta(description="number of topics without a name here")] = 0
    others_msg_rate: MsgRate = 0.0
    others_throughput: Throughput = 0.0
    partitions: (
        Annotated[Count, Meta(description="of the largest topic; 0 = not partitioned")] | UnsetType
    ) = UNSET
    dispatch: (
        Annotated[
            tuple[int, int],
            Meta(description="dispatch limits of the largest topic: messages/s, bytes/s"),
        ]
        | UnsetType
    ) = UNSET


class NoteRecord(Struct, frozen=True, tag_field="kind", tag="note"):
    """A remark for people, which the engine ignores, whatever else it contains; except
    `owned-bundles`: `report` names all bundles of `broker`, by which drains know them; and
    `topics-of-bundle`: `report` has the topics of a hot bundle of `broker`.
    """

    v: Version
    cluster: Cluster
    ts: Milliseconds = 0
    note: Raw = field(default_factory=Raw)
    broker: Raw = field(default_factory=Raw)
    report: Raw = field(default_factory=Raw)


TelemetryMessage = (
    LoadReportRecord
    | BrokerLoadRecord
    | TopBundlesRecord
    | SweepRecord
    | PoliciesRecord
    | OutcomeReportRecord
    | IntentRecord
    | NoteRecord
)

#: The kinds by name, in the order of the contract.
KINDS: dict[str, type[TelemetryMessage]] = {
    "load-report": LoadReportRecord,
    "broker-load-data": BrokerLoadRecord,
    "top-bundles-load-data": TopBundlesRecord,
    "sweep": SweepRecord,
    "policies": PoliciesRecord,
    "outcome": OutcomeReportRecord,
    "intent": IntentRecord,
    "note": NoteRecord,
}
