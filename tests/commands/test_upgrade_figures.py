"""`rebalancer upgrade-preview` of simulated clusters: a day of load that goes round, and segments
that split and merge over the bundles of Pulsar 5.0. Each figure is that of a separate back-test.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster, closed_loop
from pulsar_rebalancer.lab.simulation.scenarios.read_scenarios import load
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.recordings.json_lines import Recording
from strategies.cluster.model import OutcomeReport
from strategies.fold.engine import EngineSettings
from tests.lab.test_upgrade_preview import EAGER, RECORDINGS, SHARED
from tests.separate_back_tests import check_conf, check_defaults
from tests.unit.test_broker_conf import AVG, written
from tests.world.simulated_loops import DAY, Recorder

pytestmark = pytest.mark.lab

#: What 5.0 has for the keys that the files of this module leave out; those of 4.2 are in the
#: converted file.
LEFT_OUT = ("filters.distribute_evenly=false", "placement.strategy=avg")
FAST = ("round.interval_ms=10000", "round.cool_down_ms=60000")

#: What moves bundles of the recorded cluster.
OWN = EngineSettings("threshold", mode="parity", placement="least_long_term_rate")


def simulated(file: Path, scenario: str, changes: Mapping[str, Any], seed: int = 1) -> Path:
    """Writes the recording of a built-in scenario with these keys changed, as JSON Lines. Moves are
    in the reports; the cluster's balancer publishes no outcomes.
    """
    drawn = load(scenario, changes).scenario
    cluster = PolledCluster(drawn_world(drawn, seed), scenario)
    balancer, writer = Recorder(OWN), TelemetryWriter(cluster.start_ms)
    deque(islice(closed_loop(cluster, balancer), drawn.minutes), maxlen=0)
    with Recording(file) as recording:
        recording.append(
            writer.json(one) for one in balancer.records if not isinstance(one, OutcomeReport)
        )
    return file


def test_a_day_of_load_that_goes_round(tmp_path: Path) -> None:
    before, after = check_defaults(simulated(tmp_path / "day.jsonl", "calm-day", DAY))

    assert 0 < min(before, after) < max(before, after)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_segments_that_split_over_the_bundles_of_50(tmp_path: Path, seed: int) -> None:
    burst = simulated(tmp_path / "burst.jsonl", "segment-split-burst", {"bundles": "5.0"}, seed)

    before, after = check_defaults(burst)

    assert min(before, after) > 0


def test_a_broker_conf_has_the_figures_of_its_settings_in_both_releases(tmp_path: Path) -> None:
    """The file names what sheds, and leaves out what places and the other keys whose defaults
    differ.
    """
    day = simulated(tmp_path / "day.jsonl", "calm-day", DAY)

    before, after = check_conf(
        day, written(tmp_path, AVG, "loadBalancerAvgShedderLowThreshold=10"), LEFT_OUT
    )

    assert 0 < min(before, after) < max(before, after)


@pytest.mark.parametrize(
    "file",
    [
        RECORDINGS / "modular-broker-joins.jsonl.gz",
        RECORDINGS / "modular-broker-killed.jsonl.gz",
        SHARED / "modular-steady-uneven.jsonl.gz",
        SHARED / "modular-jitter-consumer.jsonl.gz",
    ],
    ids=lambda file: file.name,
)
def test_a_broker_conf_that_moves_much_on_real_clusters(file: Path, tmp_path: Path) -> None:
    if not file.exists():
        pytest.skip("the shared recordings are not here")

    counts = check_conf(file, written(tmp_path, AVG, *EAGER), LEFT_OUT, *FAST)

    assert min(counts) > 0
