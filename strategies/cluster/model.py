"""The data model: a cluster, the decisions of a round, and what it leaves alone, with the reason.

Units everywhere: rates in messages/s, throughput in bytes/s, times in milliseconds since the epoch,
usage as a fraction (1.0 = 100 %) unless a name says percent. Resource figures keep Pulsar's own
units (cpu: percent of one core, memory: MiB, bandwidth: kbit/s), because only usage and limit of
the same resource are ever compared.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from strategies.bundles import BundleLoads, Floats, Ints, TableSummary, no_bundles
from strategies.cluster.intent_contract import Intent, IntentStatus
from strategies.cluster.move_cost import NOT_MEASURED, MoveCost
from strategies.cluster.round_figures import Certificate, Forecast, RoundState, Spread
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
    """The figures that a broker reports: five resources, total traffic, number of bundles (system
    bundles included).

    None except in reports of the extensible load manager: `usage_average`, the broker's own average
    of its largest weighted resource (fraction), `throughput_average` (bytes/s in + out), and
    `updated_at_ms`, the time of these averages by the broker's own clock.
    """

    cpu: Resource = Resource()
    memory: Resource = Resource()
    direct_memory: Resource = Resource()
    bandwidth_in: Resource = Resource()
    bandwidth_out: Resource = Resource()
    traffic: Traffic = Traffic()
    bundle_count: int = 0
    usage_average: float | None = None
    throughput_average: float | None = None
    updated_at_ms: int | None = None


@dataclass(frozen=True)
class BrokerLoad:
    """One broker as input of a strategy; its bundle table is unpacked on first access.

    `fresh`: its traffic or CPU figures changed since the last round (a poll is not a sample).
    `settling`: it took part in a move whose effect its newest report cannot show yet, so it must be
    neither source nor destination. `summary`: of `bundles`, if known without unpacking them;
    `count_bundles` likewise counts the bundles of a namespace. `reported_at_ms`: time of the
    report; None = just now. `estimated`: moves that no report shows yet are counted into its
    figures.
    """

    broker: str
    figures: Figures
    load_bundles: Callable[[], BundleLoads] = field(default=no_bundles, repr=False, compare=False)
    fresh: bool = True
    settling: bool = False
    summary: TableSummary | None = None
    reported_at_ms: int | None = None
    count_bundles: Callable[[str], int] | None = field(default=None, repr=False, compare=False)
    estimated: bool = False

    @cached_property
    def bundles(self) -> BundleLoads:
        return self.load_bundles()


@dataclass(frozen=True)
class ClusterView:
    """All brokers of a cluster with valid figures at one instant, in order of first appearance.

    `cooling`: bundles that were moved within the last `cool_down_ms` and must stay (Pulsar:
    `recentlyUnloadedBundles`). `is_excluded`: whether the operator excludes the namespace of a
    bundle. `takers(bundle, source)`: the brokers that policies and filters allow; None where they
    forbid none. `even`: None where bundles are not spread by number.
    `foreign_ms`: time of the newest move by something else, -1 without one. `command_ttl_ms`: how
    long after its round a command may be carried out.
    `bundle_names`: every bundle with averages, in order of first appearance. It walks over all
    tables, so only Java's way to break ties uses it.
    """

    cluster: str
    now_ms: int
    brokers: tuple[BrokerLoad, ...]
    cooling: frozenset[str] = frozenset()
    list_bundles: Callable[[], Sequence[str]] | None = field(
        default=None, repr=False, compare=False
    )
    is_excluded: Callable[[str], bool] = field(default=lambda _: False, repr=False, compare=False)
    policies: PoliciesView = field(default=PoliciesView(), repr=False, compare=False)
    takers: Callable[[str, str], Collection[str]] | None = field(
        default=None, repr=False, compare=False
    )
    even: EvenDistribution | None = field(default=None, repr=False, compare=False)
    cool_down_ms: int = 0
    foreign_ms: int = -1
    command_ttl_ms: int = 0

    @cached_property
    def bundle_names(self) -> Sequence[str]:
        if self.list_bundles is not None:
            return self.list_bundles()
        return list(dict.fromkeys(name for broker in self.brokers for name in broker.bundles.names))


@dataclass(frozen=True, slots=True)
class Decision:
    """One bundle that should leave `source`, with a destination if the strategy names one. `code`
    is stable, `text` for people. `exchange`: decisions with the same value are carried out together
    or not at all. `forecast`: what source loses and destination gains, in fractions of usage.
    """

    bundle: str
    source: str
    destination: str | None
    code: str
    text: str
    evidence: Evidence = field(default_factory=dict)
    exchange: str | None = None
    forecast: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Candidates that a round leaves alone, and their common reason. `broker`: the broker of the
    bundles in a bundle skip.
    """

    subject: Literal["cluster", "broker", "bundle"]
    names: tuple[str, ...]
    code: str
    text: str
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
    """An instruction on the control topic. `id` is derived from the content, so every publication
    of a command carries the same id.

    `algorithm`: Pulsar's name of a split's algorithm. `limits`: the limits that a throttle advises.
    """

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
    algorithm: str | None = None
    limits: Mapping[str, Scalar] | None = None

    @property
    def is_move(self) -> bool:
        """Whether the bundle leaves its broker; a split or a throttle does not move it."""
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
    """The record of one round of one cluster: its input, decisions, skips and expected effect.

    `usage`, `usage_after`: fraction per broker, now and estimated after the commands; `stale`:
    brokers left out, why; `digest`: of the whole input; `intents`: of operators; `counted`: number
    of moves that `usage` has before reports show them; `measured`: usage as reported, if another.
    """

    cluster: str
    round: int
    epoch: int
    ts: int
    closed_by: Literal["sweep", "all-reported", "lateness"]
    strategy: str
    brokers: tuple[str, ...]
    stale: Mapping[str, str]
    usage: Mapping[str, float]
    usage_after: Mapping[str, float]
    spread: Spread
    spread_after: Spread
    throughput_spread: Spread
    commands: tuple[str, ...]
    skips: tuple[Skip, ...]
    digest: str
    version: str
    certificate: Certificate | None = None
    forecast: Forecast | None = None
    state: RoundState | None = None
    intents: tuple[IntentStatus, ...] = ()
    counted: int = 0
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
    """Newest figures of a broker's bundles as columns. `traffic`: float64[n, 4]; `topics`,
    `sessions`: int64[n].
    """

    names: tuple[str, ...]
    traffic: Floats
    topics: Ints
    sessions: Ints


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """A broker's report. One of `figures`, `bundles` is None when the report holds only the other
    (extensible load manager).

    `digest` covers what makes a report a new sample: CPU, traffic and bundle figures (not heap, not
    `lastUpdate`).
    `origin` is opaque here: position and original bytes of the record, for the rejected topic.
    `started_ms`: when the broker started, by its own clock; None where reports do not say it.
    `left_out`: what could not be used of the report, one sentence each.
    """

    cluster: str
    broker: str
    ts: int
    figures: Figures | None
    bundles: BundleStats | None
    digest: str
    origin: bytes = b""
    started_ms: int | None = None
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
    """End of one collection pass; `missing` maps a broker without figures to the reason.

    `answering`: the missing brokers that answered, but have published no figures; `leader`: of the
    cluster; `shedding`: whether Pulsar's own shedder is on there. None = unknown.
    """

    cluster: str
    ts: int
    sweep: int
    brokers: tuple[str, ...]
    missing: Mapping[str, str]
    origin: bytes = b""
    answering: tuple[str, ...] = ()
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
    """All bundles of a broker of the extensible load manager, whose own reports list the busiest
    ones only. By the collector's note; it has no part in the cluster's time.
    """

    cluster: str
    broker: str
    ts: int
    bundles: tuple[str, ...]
    origin: bytes = b""


TelemetryRecord = LoadReport | Tombstone | Sweep | OutcomeReport | Policies | Note | Intent | Owned
Event = Command | Round | Rejection
