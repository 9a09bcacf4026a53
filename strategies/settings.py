"""The description of a setting, and the settings that belong to no single strategy: weights,
rounds, destinations, limits of moves, drains, yielding, and the quota of records.

A settings class is a frozen dataclass whose fields are `Annotated[type, Setting(...)]`, each with a
default. `pulsar_rebalancer.settings` builds one validated tree, a schema and a table from them;
this module reads neither files nor the environment.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from strategies.errors import SettingsError

#: The version of this program: in records of rounds, names of images and the package. A change is
#: made here, and by `python -m scripts.image_tags`.
VERSION = "0.2.0"

#: `parity`: exactly as Pulsar's Java class, including defects and hash order. `fixed`: the same
#: rule with its known defects repaired.
Mode = Literal["fixed", "parity"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One sentence, a unit, Pulsar's own key (if it has one) and the bounds of a setting; bounds
    are inclusive.
    """

    text: str
    unit: str = ""
    pulsar: str | None = None
    ge: float | None = None
    le: float | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each resource counts in a broker's usage (Pulsar: loadBalancer…ResourceWeight); heap
    memory never counts.
    """

    cpu: Annotated[
        float, Setting("Weight of CPU", pulsar="loadBalancerCPUResourceWeight", ge=0, le=1000)
    ] = 1.0
    direct_memory: Annotated[
        float,
        Setting(
            "Weight of direct memory",
            pulsar="loadBalancerDirectMemoryResourceWeight",
            ge=0,
            le=1000,
        ),
    ] = 0.0
    bandwidth_in: Annotated[
        float,
        Setting(
            "Weight of inbound bandwidth",
            pulsar="loadBalancerBandwidthInResourceWeight",
            ge=0,
            le=1000,
        ),
    ] = 1.0
    bandwidth_out: Annotated[
        float,
        Setting(
            "Weight of outbound bandwidth",
            pulsar="loadBalancerBandwidthOutResourceWeight",
            ge=0,
            le=1000,
        ),
    ] = 1.0


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """When a round closes, which reports it uses, and how long a moved bundle stays."""

    interval_ms: Annotated[
        int,
        Setting(
            "Time between two rounds of a cluster",
            "ms",
            "loadBalancerSheddingIntervalMinutes",
            ge=1000,
            le=86_400_000,
        ),
    ] = 60_000
    lateness_ms: Annotated[
        int,
        Setting(
            "How long a round that is due waits for brokers that have not reported",
            "ms",
            ge=0,
            le=3_600_000,
        ),
    ] = 15_000
    stale_after_ms: Annotated[
        int,
        Setting(
            "A broker whose newest report is older than this is left out of the round",
            "ms",
            ge=1000,
            le=86_400_000,
        ),
    ] = 180_000
    max_clock_jump_ms: Annotated[
        int,
        Setting(
            "A record whose time is further than this from the cluster's time is rejected",
            "ms",
            ge=1000,
            le=86_400_000,
        ),
    ] = 300_000
    #: After only such records for this long, the cluster's clock is reset to theirs.
    clock_recovery_ms: int = 900_000
    cool_down_ms: Annotated[
        int,
        Setting(
            "Time after a move during which the bundle does not move again",
            "ms",
            "loadBalancerSheddingGracePeriodMinutes",
            ge=0,
            le=604_800_000,
        ),
    ] = 1_800_000
    forget_cluster_after_days: Annotated[
        int,
        Setting(
            "A cluster without a record for longer than this, by its own time, begins again "
            "without memory; its round numbers go on. 0 = never",
            "days",
            ge=0,
            le=3_650,
        ),
    ] = 7
    command_ttl_ms: Annotated[
        int,
        Setting(
            "Time after its round during which a command may be carried out",
            "ms",
            ge=1000,
            le=86_400_000,
        ),
    ] = 300_000
    epoch: Annotated[
        int,
        Setting(
            "Lowest epoch of commands; a new checkpoint takes the next one after those on its "
            "topics",
            ge=1,
            le=2**53,
        ),
    ] = 1


@dataclass(frozen=True, slots=True)
class DestinationSettings:
    """Limit above which a destination is too full, for every placement."""

    overloaded_percent: Annotated[
        float,
        Setting(
            "A broker that is or would be fuller than this takes a bundle only if no other "
            "broker is below this limit",
            "%",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=0,
            le=100_000,
        ),
    ] = 85.0


def check_clock(settings: RoundSettings) -> None:
    """Raises SettingsError if a pause that is too short to make a report stale would count as a
    wrong clock.
    """
    stale, jump = settings.stale_after_ms, settings.max_clock_jump_ms
    if stale > jump:
        text = (
            f"{stale} is more than round.max_clock_jump_ms ({jump}), so a pause that leaves no "
            "report stale would count as a wrong clock"
        )
        raise SettingsError(
            [f"round.stale_after_ms: {text}; lower it, or raise round.max_clock_jump_ms"]
        )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Limits of moves. The defaults limit nothing, because neither load manager of Pulsar has such
    limits.
    """

    excluded_namespaces: Annotated[
        str,
        Setting(
            "Namespaces whose bundles move only from a drained broker: tenant/namespace, * matches "
            "any text, separated by commas",
            pulsar="loadBalancerSheddingExcludedNamespaces",
        ),
    ] = ""
    excluded_brokers: Annotated[
        str,
        Setting(
            "Brokers that no round includes: host:port, * matches any text, separated by commas"
        ),
    ] = ""
    windows: Annotated[
        str,
        Setting(
            "Maintenance windows, the only times in which bundles move or split: [Mon-Fri "
            "]22:00-06:00, separated by commas; empty = always"
        ),
    ] = ""
    utc_offset_minutes: Annotated[
        int, Setting("Offset of the windows' time zone from UTC", "min", ge=-840, le=840)
    ] = 0
    moves_per_round: Annotated[
        int, Setting("Bundles that one round may move; 0 = no limit", "bundles", ge=0, le=1_000_000)
    ] = 0
    moves_per_hour: Annotated[
        int,
        Setting(
            "Bundles that may move within an hour; 0 = no limit", "bundles", ge=0, le=1_000_000
        ),
    ] = 0
    moved_mib_per_round: Annotated[
        float,
        Setting(
            "Throughput of the bundles that one round may move; 0 = no limit",
            "MiB/s",
            ge=0,
            le=1e12,
        ),
    ] = 0.0
    moved_mib_per_hour: Annotated[
        float,
        Setting(
            "Throughput of the bundles that may move within an hour; 0 = no limit",
            "MiB/s",
            ge=0,
            le=1e12,
        ),
    ] = 0.0


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """The pace of drains, beside the limits that every move respects."""

    bundles_at_a_time: Annotated[
        int,
        Setting(
            "Bundles of draining brokers that may be on their way at a time, until a report shows "
            "their arrival",
            "bundles",
            ge=1,
            le=1_000_000,
        ),
    ] = 10
    mib_at_a_time: Annotated[
        float,
        Setting(
            "Throughput of these bundles; one bundle may always leave; 0 = no limit",
            "MiB/s",
            ge=0,
            le=1e12,
        ),
    ] = 0.0
    pause_ms_per_round: Annotated[
        int,
        Setting(
            "Expected pauses of clients, added over the bundles that leave in a round, by what "
            "moves of bundles with as many topics have cost; one bundle may always leave; 0 = no "
            "limit",
            "ms",
            ge=0,
            le=86_400_000,
        ),
    ] = 0


@dataclass(frozen=True, slots=True)
class RivalSettings:
    """Limits from which on rounds yield to something else that moves bundles. The default of
    `moves_per_hour` tolerates moves by hand, and is far below the pace of Pulsar's shedders, which
    unload every minute while they see a reason.
    """

    moves_per_hour: Annotated[
        int,
        Setting(
            "Bundles that something else may move within an hour before rounds yield to it; "
            "0 = rounds never yield",
            "bundles",
            ge=0,
            le=1_000_000,
        ),
    ] = 10
    calm_ms: Annotated[
        int,
        Setting(
            "Time without such a move after which rounds that yield act again; it doubles each "
            "time that they yield again within an hour, up to 8 times as long",
            "ms",
            ge=1_000,
            le=86_400_000,
        ),
    ] = 900_000


@dataclass(frozen=True, slots=True)
class BulkheadSettings:
    """Quota of one cluster per minute of its own record time: a fixed part, or the part per broker
    times the brokers of the last round, whichever is larger. Before the first round, `first_bytes`
    takes the place of the bytes per broker.

    A broker of the extensible load manager sends at most 24 records a minute (two every 5 s): the
    defaults allow four times as many. A report has about 310 bytes per bundle: with the collector's
    three passes a minute, the defaults allow 3,300 bundles on every broker, as many as fit into a
    report in ZooKeeper. The bytes of a record determine how long all other clusters wait for it;
    those beyond 1 MiB count three times. So one broker alone may have 13,000 bundles.
    """

    records: Annotated[
        int,
        Setting("Records of a cluster that its quota always has", "records/min", ge=1, le=2**53),
    ] = 10_000
    #: Records for each broker of the last round.
    records_per_broker: int = 100
    bytes: Annotated[
        int,
        Setting(
            "Bytes of a cluster's records that its quota always has", "bytes/min", ge=1, le=2**53
        ),
    ] = 32 * 2**20
    #: Bytes for each broker of the last round.
    bytes_per_broker: int = 3 * 2**20
    #: Bytes of the records of a cluster whose brokers no round knows yet.
    first_bytes: int = 64 * 2**20
