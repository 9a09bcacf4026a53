"""Settings of the rules that restrain rounds: limits of moves, drains, yielding, and the quota of
records.
"""

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


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
