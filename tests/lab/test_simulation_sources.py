"""What a scenario may bring along: load as it was recorded, and policies that say which brokers may
serve it.
"""

from pathlib import Path

import pytest

from pulsar_rebalancer.lab.requested_runs import Made, RunRequest, StrategyChoice, make
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios

SCENARIO = """
# Four brokers, one of which dies.
title = "a scenario"
minutes = 12
bundles = 16
[machines.plain]
cpu_per_mib = 8
[[brokers]]
machine = "plain"
count = 4
[[happenings]]
minute = 4
kind = "kill"
brokers = ["broker-1"]
[[traffic]]
name = "all"
mib_in = 40
"""
POLICY = """
[policies.isolation.ours]
namespaces = ["public/simulated"]
primary = ["broker-1", "broker-3"]
secondary = []
auto_failover_policy.policy_type = "min_available"
auto_failover_policy.parameters = { min_limit = "1", usage_threshold = "100" }
"""


def made(path: Path, who: str = "avg/fixed") -> Made:
    return make(RunRequest(str(path), 1, StrategyChoice.read(who)), keep=True)


def destinations(done: Made) -> set[str | None]:
    assert done.timeline is not None
    return {move.destination for move in done.timeline.moves}


@pytest.mark.parametrize("who", ["avg/fixed", "threshold/parity"])
def test_bundles_of_a_broker_that_died_stay_on_the_brokers_their_policy_names(
    tmp_path: Path, who: str
) -> None:
    free, bound = tmp_path / "free.toml", tmp_path / "bound.toml"
    free.write_text(SCENARIO)
    bound.write_text(SCENARIO + POLICY)
    assert "broker-2:8080" in destinations(made(free, who))
    assert destinations(made(bound, who)) == {"broker-3:8080"}


TRAFFIC = (
    '[[traffic]]\nname = "all"\nmib_in = 40\nwave = { kind = "trace", interval_s = 120, file '
    '= "load.csv" }\n'
)


def test_load_follows_a_recorded_trace_whose_mean_is_the_load_of_the_scenario(
    tmp_path: Path,
) -> None:
    figures = "# minute, bytes per second\n0, 1000\n2, 3000\n\n4, 2000\n"
    (tmp_path / "load.csv").write_text(figures)
    path = tmp_path / "traced.toml"
    path.write_text(SCENARIO.partition("[[happenings]]")[0] + TRAFFIC)
    (flow,) = read_scenarios.load(str(path)).scenario.traffic
    assert flow.wave is not None
    assert flow.wave.kind == "trace"
    assert flow.wave.factors == (0.5, 1.5, 1.0)
    line = made(path).timeline
    assert line is not None
    totals = line.msg_throughput.sum(axis=1) / 2**20
    assert totals[[2, 4, 6]] == pytest.approx([40, 120, 80], rel=0.3)
