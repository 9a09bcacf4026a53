"""Whole runs on modelled clusters: what the published cards tell, and what must hold in every
run.
"""

from typing import Any

import pytest

from pulsar_rebalancer.lab.requested_runs import (
    Made,
    RunRequest,
    StrategyChoice,
    make,
    run_requests,
)
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
from pulsar_rebalancer.lab.simulation.timeline import Timeline


def _run(
    scenario: str, seed: int = 1, who: str | None = None, **changes: Any
) -> tuple[Made, Timeline]:
    choice = None if who is None else StrategyChoice.read(who)
    made = make(RunRequest(scenario, seed, choice, changes=changes), keep=True)
    assert made.timeline is not None
    return made, made.timeline


@pytest.mark.heavy
def test_avg_shedder_acts_on_the_eighth_hit_once_and_a_spike_moves_nothing() -> None:
    made, timeline = _run("e7-avg-equal")
    assert made.figures["rounds_to_first_command"] == 7
    assert made.figures["operations"] == 1
    assert made.figures["lasting_spread"] < 15
    spike = timeline.usage[45:48, timeline.brokers.index("83:8080")].max()
    assert spike > timeline.usage[44, timeline.brokers.index("83:8080")] + 0.2


@pytest.mark.heavy
def test_a_new_broker_is_given_bundles_after_two_urgent_hits() -> None:
    made, timeline = _run("e9-avg-scale-up")
    first = [move for move in timeline.moved() if move.round == 11]
    assert {move.destination for move in first} == {"87:8080"}
    assert made.figures["bundles_at_first"] == len(first)
    assert [(member.broker, member.change) for member in timeline.memberships] == [
        ("87:8080", "joined")
    ]


def test_bundles_of_a_broker_that_left_are_placed_and_that_is_no_unload() -> None:
    made, timeline = _run("e8-avg-scale-down", minutes=14)
    placed = [move for move in timeline.moves if move.kind == "placed"]
    assert placed
    assert all(
        move.source == "161:8080" and move.destination != "161:8080" and move.reason
        for move in placed
    )
    assert made.figures["bundles_moved"] == 0
    assert made.figures["bundles_placed"] == len(placed)


@pytest.mark.heavy
def test_threshold_shedder_moves_again_because_its_average_lags_behind() -> None:
    made, timeline = _run("e4-threshold-over-unloading")
    assert made.figures["bundles_moved"] >= 6
    sources = [move.source for move in timeline.moved()]
    assert len(set(sources)) > 1, "what took over has to give in its turn"


@pytest.mark.lab
def test_a_bundle_that_is_unloaded_without_a_destination_may_come_back() -> None:
    for who, comes_back in ((None, True), ("threshold/fixed+least_resource_usage", False)):
        runs = [_run("e3-threshold-equal", seed, who)[1] for seed in range(2, 6)]
        moves = [move for timeline in runs for move in timeline.moved()]
        assert any(move.source == move.destination for move in moves) == comes_back


@pytest.mark.lab
def test_moves_that_take_longer_than_a_round_are_told_when_they_are_done() -> None:
    who = "threshold/parity+least_resource_usage"
    made, line = _run("hundred-new-brokers", who=who, minutes=12)
    assert line.rounds == 12
    assert made.figures["bundles_moved"] > 300


@pytest.mark.heavy
def test_the_fixed_rules_leave_jitter_alone() -> None:
    for who in ("avg/fixed", "threshold/fixed"):
        made, _ = _run("e6-avg-jitter", who=who, minutes=90)
        assert made.figures["bundles_moved"] == 0


@pytest.mark.lab
@pytest.mark.parametrize("name", read_scenarios.names())
def test_every_scenario_runs_and_its_published_figures_have_names(name: str) -> None:
    scenario = read_scenarios.load(name).scenario
    minutes = max(12, min(30, scenario.minutes))
    made = make(run_requests([name], (), [1], changes={"minutes": minutes})[0])
    for one in scenario.published:
        assert one.figure in made.figures
    assert made.figures["share_with_reason"] == 1.0


@pytest.mark.heavy
def test_the_least_that_had_to_move_is_never_more_than_what_moved() -> None:
    for seed in range(1, 4):
        made, _ = _run("e9-avg-scale-up", seed, "avg/fixed")
        # Traffic stands for load here, and messages of different sizes cost different amounts.
        assert made.figures["churn_ratio"] > 0.8


@pytest.mark.lab
def test_a_dispatch_limit_hides_load_from_those_who_look_at_usage_only() -> None:
    relieved, _ = _run("dispatch-limit", who="avg/parity")
    content, line = _run("dispatch-limit", who="overload/parity")
    assert relieved.figures["bundles_moved"] > 0
    assert relieved.backlog < 1
    assert content.figures["bundles_moved"] == 0
    assert content.backlog > 1e8
    assert "were unread at the end" in line.notes[-1]
