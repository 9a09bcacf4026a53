"""Settings of the collector: interval, concurrency and timeouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Brokers measure once a minute; passes more frequent than rounds make sure that each round has
    fresh figures.
    """

    pass_interval_ms: Annotated[
        int,
        Setting(
            "Interval between the starts of two passes over all brokers", "ms", ge=100, le=3_600_000
        ),
    ] = 20_000
    broker_deadline_ms: Annotated[
        int,
        Setting(
            "Timeout for one broker; after it the broker is reported as missing",
            "ms",
            ge=10,
            le=600_000,
        ),
    ] = 3_000
    max_concurrent: Annotated[
        int, Setting("Number of brokers asked concurrently", "", ge=1, le=1_000)
    ] = 64
    most_passes_off: Annotated[
        int,
        Setting(
            "Maximum number of passes in a row that skip a failing broker (they skip it 1, 2, "
            "4 … times)",
            "",
            ge=0,
            le=1_000,
        ),
    ] = 8
    keep_ms: Annotated[
        int,
        Setting(
            "Validity of an extensible broker's newest published load; after it the broker is "
            "reported as missing",
            "ms",
            ge=1_000,
            le=86_400_000,
        ),
    ] = 1_800_000
    policies_interval_ms: Annotated[
        int,
        Setting(
            "Interval for reading isolation policies, anti-affinity groups and failure domains",
            "ms",
            ge=100,
            le=86_400_000,
        ),
    ] = 300_000
    policies_repeat_ms: Annotated[
        int,
        Setting(
            "Interval for publishing policies that have not changed, for jobs that rejected them "
            "after an outage, or that read the newest telemetry only",
            "ms",
            ge=100,
            le=86_400_000,
        ),
    ] = 900_000
