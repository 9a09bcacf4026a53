"""Recordings of simulated clusters: brokers report to a collector, and the cluster's own balancer
moves bundles as Pulsar 4.2 does by default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pulsar_rebalancer.lab.simulation.closed_loop import (
    EngineDecider,
    PolledCluster,
    RoundAnswer,
    closed_loop,
)
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.scenarios.catalog import load
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.recordings.json_lines import Recording
from strategies.cluster.model import OutcomeReport, TelemetryRecord
from strategies.fold.engine import EngineSettings

#: What moves bundles of the recorded cluster.
OWN = EngineSettings("threshold", mode="parity", placement="least_long_term_rate")
#: Seven days of a cluster in which load goes round: six flows whose peaks follow each other, over
#: few bundles each, so that brokers take turns being full.
WEEK: Mapping[str, Any] = MappingProxyType(
    {
        "minutes": 7 * 1440,
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
)


class _Recorder:
    """The cluster's own balancer. Its moves are in the reports; it publishes no outcomes."""

    def __init__(self, recording: Recording, cluster: PolledCluster) -> None:
        self._recording, self._writer = recording, TelemetryWriter(cluster)
        self._decider = EngineDecider(OWN)

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        self._recording.append(
            self._writer.json(one) for one in records if not isinstance(one, OutcomeReport)
        )
        return self._decider.decide(records)


def simulated(file: Path, scenario: str, changes: Mapping[str, Any], seed: int = 1) -> Path:
    """Writes the recording of a built-in scenario with these keys changed, as JSON Lines."""
    drawn = load(scenario, changes).scenario
    cluster = PolledCluster(drawn_world(drawn, seed), scenario)
    with Recording(file) as recording:
        loop = closed_loop(cluster, _Recorder(recording, cluster))
        deque(islice(loop, drawn.minutes), maxlen=0)
    return file
