"""Settings that limit a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Limits of a round. The defaults limit nothing, as neither load manager of Pulsar has such
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
