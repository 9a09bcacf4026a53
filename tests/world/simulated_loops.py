"""What the telemetry of a simulated cluster is while its own balancer moves bundles."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, RoundAnswer
from strategies.cluster.model import TelemetryRecord
from strategies.fold.engine import EngineSettings

#: Changes of the scenario `calm-day` that make a day of load that goes round: six flows whose peaks
#: follow each other, over few bundles each, so that brokers take turns being full.
DAY: Mapping[str, Any] = {
    "minutes": 1440,
    "machines": {"plain": {"cores": 16, "cpu_idle": 8, "cpu_per_mib": 1.5}},
    "traffic": [
        {
            "name": f"peak-at-{hour}",
            "mib_in": 100,
            "partitions": 6,
            "wave": {"kind": "daily", "amplitude": 0.95, "peak_hour": hour},
        }
        for hour in (1, 5, 9, 13, 17, 21)
    ],
}


class Recorder:
    """The cluster's balancer; `records`: all that it was told."""

    def __init__(self, settings: EngineSettings) -> None:
        self.records: list[TelemetryRecord] = []
        self._decider = EngineDecider(settings)

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self.records += records
        return self._decider.decide(records)
