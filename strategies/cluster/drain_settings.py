"""Settings of drains: how fast bundles leave a broker that is being drained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


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
