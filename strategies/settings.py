"""The description of a setting, and the settings that belong to no single strategy.

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
