"""Settings of the collector: interval, concurrency and timeouts."""

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
    hot_bundle_mb: Annotated[
        float,
        Setting(
            "Traffic from which on a bundle is hot: the collector reads its topics, of one bundle "
            "per pass; a message counts at least 1 kB; 0 = never",
            "MB/s",
            ge=0,
            le=1_000_000,
        ),
    ] = 20.0
    #: Brokers asked concurrently.
    max_concurrent: int = 64
    #: Most passes in a row that skip a failing broker (they skip it 1, 2, 4 … times).
    most_passes_off: int = 8
    #: Validity of an extensible broker's newest published load, as in Pulsar's
    #: loadBalancerBrokerLoadDataTTLInSeconds; after it the broker is reported as missing.
    keep_ms: int = 1_800_000
    #: Interval for reading isolation policies, anti-affinity groups and failure domains.
    policies_interval_ms: int = 300_000
    #: Interval for publishing policies that have not changed, for jobs that rejected them after an
    #: outage, or that read the newest telemetry only.
    policies_repeat_ms: int = 900_000
