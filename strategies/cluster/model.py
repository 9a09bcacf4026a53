"""The data model: telemetry records, a cluster's load, the decisions of a round, and its record.

Units everywhere: rates in messages/s, throughput in bytes/s, times in milliseconds since the epoch,
usage as a fraction (1.0 = 100 %) unless a name says percent. Resource figures keep Pulsar's own
units (CPU: percent of one core, memory: MiB, bandwidth: kbit/s), because only usage and limit of
the same resource are compared. `origin` is opaque here: position and original bytes of a record.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from strategies.bundles import BundleLoads, Floats, Ints, TableSummary, no_bundles
from strategies.cluster.intent_records_and_states import Intent, IntentStatus
from strategies.cluster.move_cost import NOT_MEASURED, MoveCost
from strategies.cluster.round_figures import Certificate, Forecast, RoundState, Spread
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.filters.broker_filters import EvenDistribution
from strategies.filters.policies import PoliciesView

#: The latest time (ms since the epoch) of JavaScript's Date; no written record carries a later one.
LARGEST_TIME = 8_640_000_000_000_000
MIB = 1 << 20

Scalar = str | int | float | bool | None
Evidence = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Resource:
    """Usage and limit of one resource in the same unit. A limit of 0 or below reads as 0 % used."""

    usage: float = 0.0
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages/s and bytes/s in and out of a broker or bundle."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0

    @property
    def msg_rate(self) -> float:
        return self.msg_rate_in + self.msg_rate_out

    @property
    def msg_throughput(self) -> float:
        return self.msg_throughput_in + self.msg_throughput_out


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that a broker reports: five resources, total traffic, number of bundles."""

    cpu: Resource = Resource()
    memory: Resource = Resource()
    direct_memory: Resource = Resource()
    bandwidth_in: Resource = Resource()
    bandwidth_out: Resource = Resource()
    traffic: Traffic = Traffic()
    #: System bundles included.
    bundle_count: int = 0
    #: The broker's own averages, only in reports of the extensible load manager: of its largest
    #: weighted resource (fraction) and of bytes/s in + out; their time, by the broker's own clock.
    usage_average: float | None = None
    throughput_average: float | None = None
    updated_at_ms: int | None = None


@dataclass(frozen=True)
class BrokerLoad:
    """One broker as input of a strategy; its bundle table is unpacked on first access."""

    broker: str
    figures: Figures
    load_bundles: Callable[[], BundleLoads] = field(default=no_bundles, repr=False, compare=False)
    #: Its traffic or CPU figures changed since the last round (a poll is not a sample).
    fresh: bool = True
    #: It took part in a move that its newest report cannot show yet: no source, no destination.
    settling: bool = False
    #: Summary of `bundles`, where known without unpacking them.
    summary: TableSummary | None = None
    #: Time of the report; None = now.
    reported_at_ms: int | None = None
    #: Counts the bundles of a namespace without unpacking the table.
    count_bundles: Callable[[str], int] | None = field(default=None, repr=False, compare=False)
    #: Its figures include moves that no report shows yet.
    estimated: bool = False

    @cached_property
    def bundles(self) -> BundleLoads:
        return self.load_bundles()


@dataclass(frozen=True)
class ClusterView:
    """A cluster at one instant, as input of a strategy."""

    cluster: str
    now_ms: int
    #: The brokers with valid figures, in order of first appearance.
    brokers: tuple[BrokerLoad, ...]
    #: Bundles that must stay: moved within `cool_down_ms` (Pulsar: `recentlyUnloadedBundles`).
    cooling: frozenset[str] = frozenset()
    list_bundles: Callable[[], Sequence[str]] | None = field(
        default=None, repr=False, compare=False
    )
    #: True for a bundle whose namespace the operator excludes.
    is_excluded: Callable[[str], bool] = field(default=lambda _: False, repr=False, compare=False)
    policies: PoliciesView = field(default=PoliciesView(), repr=False, compare=False)
    #: (Bundle, source) → the brokers that policies and filters allow; None = all of them.
    takers: Callable[[str, str], Collection[str]] | None = field(
        default=None, repr=False, compare=False
    )
    #: None where bundles are not spread by number.
    even: EvenDistribution | None = field(default=None, repr=False, compare=False)
    cool_down_ms: int = 0
    #: Time of the newest move by something else, -1 without one.
    foreign_ms: int = -1
    #: Duration after its round in which a command may be carried out.
    command_ttl_ms: int = 0

    @cached_property
    def bundle_names(self) -> Sequence[str]:
        """All bundles with averages, in order of first appearance. Walks over all tables; only
        Java's way to break ties needs it.
        """
        if self.list_bundles is not None:
            return self.list_bundles()
        return list(dict.fromkeys(name for broker in self.brokers for name in broker.bundles.names))


@dataclass(frozen=True, slots=True)
class Decision:
    """One bundle that should leave `source`; `code` is stable, `text` for people."""

    bundle: str
    source: str
    #: None where the strategy leaves the choice to the placement.
    destination: str | None
    code: str
    text: str
    evidence: Evidence = field(default_factory=dict)
    #: Decisions with the same value are carried out together or not at all.
    exchange: str | None = None
    #: Usage (fraction) that the source loses and the destination gains.
    forecast: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Candidates that a round leaves alone, and their common reason."""

    subject: Literal["cluster", "broker", "bundle"]
    names: tuple[str, ...]
    code: str
    text: str
    #: The broker of skipped bundles.
    broker: str | None = None
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """Usage (fraction) of source and destination before a command and, estimated, after it; None
    where it cannot be known.
    """

    source_before: float | None = None
    source_after: float | None = None
    destination_before: float | None = None
    destination_after: float | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """An instruction on the control topic."""

    #: Derived from the content: every publication of a command carries the same id.
    id: str
    cluster: str
    round: int
    epoch: int
    action: Literal["unload", "transfer", "split", "throttle"]
    bundle: str
    source: str
    destination: str | None
    strategy: str
    code: str
    text: str
    evidence: Evidence
    expected: Expected
    issued_at_ms: int
    expires_at_ms: int
    #: Pulsar's name of a split's algorithm, and the hashes at which it cuts if they are given.
    algorithm: str | None = None
    boundaries: tuple[int, ...] = ()
    #: The dispatch limits that a throttle advises.
    limits: Mapping[str, Scalar] | None = None

    @property
    def is_move(self) -> bool:
        """True if the bundle leaves its broker; a split or a throttle does not move it."""
        return self.action in ("unload", "transfer")


OutcomeStatus = Literal["applied", "already-done", "refused", "failed", "expired", "dry-run"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command, as its executor reports it, and what its move cost."""

    command_id: str
    cluster: str
    bundle: str
    status: OutcomeStatus
    reason: str | None
    owner_before: str | None
    owner_after: str | None
    took_ms: int
    ts: int
    cost: MoveCost = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Round:
    """The record of one round of one cluster: its input, decisions, skips and expected effect."""

    cluster: str
    round: int
    epoch: int
    ts: int
    closed_by: Literal["sweep", "all-reported", "lateness"]
    strategy: str
    brokers: tuple[str, ...]
    #: Broker without fresh figures → the reason.
    stale: Mapping[str, str]
    #: Broker → usage (fraction), now and estimated after the commands.
    usage: Mapping[str, float]
    usage_after: Mapping[str, float]
    spread: Spread
    spread_after: Spread
    throughput_spread: Spread
    commands: tuple[str, ...]
    skips: tuple[Skip, ...]
    #: Digest of the whole input.
    digest: str
    version: str
    certificate: Certificate | None = None
    forecast: Forecast | None = None
    state: RoundState | None = None
    intents: tuple[IntentStatus, ...] = ()
    #: Number of moves that `usage` counts as done before reports show them.
    counted: int = 0
    #: Broker → usage as reported, where it differs from `usage`.
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def balanced_usage(self) -> Mapping[str, float]:
        """`usage` without brokers that are being drained."""
        drained = {
            name for skip in self.skips if skip.code == "being-drained" for name in skip.names
        }
        return {name: usage for name, usage in self.usage.items() if name not in drained}


#: Code of the rejection of a repeated record, for which the engine returns no event.
REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A valid record that cannot be used, because of its time or its place in the log; becomes a
    row on the rejected topic.
    """

    code: str
    text: str
    record: "TelemetryRecord"


@dataclass(frozen=True, slots=True, eq=False)
class BundleStats:
    """Newest figures of a broker's n bundles as columns."""

    names: tuple[str, ...]
    #: float64[n, 4]: the fields of `Traffic`.
    traffic: Floats
    #: int64[n] each.
    topics: Ints
    sessions: Ints


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """A broker's report; with the extensible load manager either `figures` or `bundles` is None."""

    cluster: str
    broker: str
    ts: int
    figures: Figures | None
    bundles: BundleStats | None
    #: Digest of CPU, traffic and bundle figures: a report is a new sample if it differs. Heap and
    #: `lastUpdate` have no part in it.
    digest: str
    origin: bytes = b""
    #: When the broker started, by its own clock; None where reports do not say it.
    started_ms: int | None = None
    #: One sentence for each part of the report that could not be used.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A broker's withdrawal of its report (extensible load manager)."""

    cluster: str
    broker: str
    ts: int
    origin: bytes = b""


@dataclass(frozen=True, slots=True)
class Sweep:
    """End of one pass of the collector over all brokers."""

    cluster: str
    ts: int
    #: Number of the pass.
    sweep: int
    brokers: tuple[str, ...]
    #: Broker without figures → the reason.
    missing: Mapping[str, str]
    origin: bytes = b""
    #: The missing brokers that answered, but have published no figures.
    answering: tuple[str, ...] = ()
    #: The leader, and True if Pulsar's own shedder is on there; None = unknown.
    leader: str | None = None
    shedding: bool | None = None


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """An executor's outcome, fed back into the telemetry."""

    cluster: str
    ts: int
    outcome: Outcome
    origin: bytes = b""


@dataclass(frozen=True, slots=True)
class Policies:
    """Complete snapshot of a cluster's policies as canonical JSON text."""

    cluster: str
    ts: int
    snapshot: str
    origin: bytes = b""


@dataclass(frozen=True, slots=True)
class Note:
    """A note for people; the engine ignores it."""

    cluster: str
    ts: int
    origin: bytes = b""


@dataclass(frozen=True, slots=True)
class Owned:
    """The collector's note of all bundles of a broker of the extensible load manager, whose own
    reports list the busiest ones only. It has no part in the cluster's time.
    """

    cluster: str
    broker: str
    ts: int
    bundles: tuple[str, ...]
    origin: bytes = b""


#: The records without a part in the cluster's time.
Untimed = Note | Intent | Owned | TopicsOfBundle
TelemetryRecord = LoadReport | Tombstone | Sweep | OutcomeReport | Policies | Untimed
Event = Command | Round | Rejection
