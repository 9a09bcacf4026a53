"""Operators in a modelled cluster: what a scenario's drains and rolls do to it."""

from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.scenario_loop import SimulatedRun, SimulationTask, run
from pulsar_rebalancer.lab.simulation.scenarios.read_scenarios import Named
from pulsar_rebalancer.lab.strategy_goal import goal_of
from strategies.fold.engine import EngineSettings
from tests.modelled import a_scenario

A, B, C, D = (f"{name}:8080" for name in "abcd")
DRAIN_B = {"minute": 5, "kind": "drain", "brokers": ["b"]}


def simulated(*happenings: dict[str, Any], minutes: int = 40) -> SimulatedRun:
    """Four equal brokers with eight equal bundles each."""
    settings = EngineSettings()
    named = Named("four", "", a_scenario("abcd", 32, 10, minutes=minutes, happenings=happenings))
    return run(SimulationTask(named, 1, settings, goal_of(settings).reached))


def sources(done: SimulatedRun) -> set[str | None]:
    return {move.source for move in done.timeline.moves if move.is_drain}


def changes_of(done: SimulatedRun) -> list[tuple[str, str]]:
    return [(one.broker, one.why) for one in done.timeline.memberships]


@pytest.mark.heavy
def test_a_drain_empties_a_broker_and_nothing_comes_back() -> None:
    done = simulated(DRAIN_B)
    (drain,) = done.operations
    assert (drain.what, drain.state, drain.finished) == (f"drain of {B}", "drained", True)
    assert (drain.evacuated, sources(done)) == (8, {B})
    # Ten bundles at a time, so all of them in one round; their arrival shows in the next.
    assert drain.rounds <= 3
    assert drain.before == pytest.approx(26, abs=1)
    assert drain.highest == pytest.approx(26 + 16 / 3, abs=1.5)
    assert done.world.rows_of(done.world.fleet.names.index(B)).size == 0
    # It counts in no figure about the strategy.
    assert done.figures["bundles_moved"] == 0
    assert done.figures["false_unloads_a_day"] == 0
    assert done.figures["client_cost"] > 0
    assert drain.known()["moved"] == 8


@pytest.mark.heavy
def test_a_broker_that_leaves_after_a_drain_costs_no_client_anything() -> None:
    leaves = {"minute": 15, "kind": "leave", "brokers": ["b"]}
    drained = simulated(DRAIN_B, leaves)
    abrupt = simulated(leaves)
    assert [move for move in drained.timeline.moves if move.kind == "placed"] == []
    assert sum(move.kind == "placed" for move in abrupt.timeline.moves) == 8


@pytest.mark.heavy
def test_after_undrain_the_broker_takes_bundles_again() -> None:
    done = simulated(DRAIN_B, {"minute": 15, "kind": "undrain", "brokers": ["b"]})
    (drain,) = done.operations
    assert (drain.state, drain.finished) == ("done", True)
    assert any(move.destination == B for move in done.timeline.moves)


@pytest.mark.heavy
def test_brokers_of_one_happening_are_drained_together() -> None:
    done = simulated({"minute": 5, "kind": "drain", "brokers": ["b", "c"]})
    assert [(one.what, one.state) for one in done.operations] == [
        (f"drain of {B}", "drained"),
        (f"drain of {C}", "drained"),
    ]


@pytest.mark.heavy
def test_a_drain_beside_another_one_is_refused() -> None:
    done = simulated(DRAIN_B, {"minute": 5, "kind": "drain", "brokers": ["c"]})
    refused = done.operations[1]
    assert (refused.state, refused.finished) == ("refused", False)
    assert f"{B} is being drained" in refused.text
    assert sources(done) == {B}


@pytest.mark.heavy
def test_a_roll_restarts_all_brokers_one_after_the_other_the_leader_last() -> None:
    done = simulated({"minute": 3, "kind": "roll", "minutes": 2}, minutes=70)
    (roll,) = done.operations
    assert (roll.what, roll.state, roll.finished) == ("roll of 4", "done", True)
    assert changes_of(done) == [
        (name, why) for name in (B, C, D, A) for why in ("restarts", "restarted")
    ]
    assert [move for move in done.timeline.moves if move.kind == "placed"] == []
    assert roll.evacuated >= 32
    assert roll.moved >= roll.evacuated
    assert roll.highest < 45


@pytest.mark.heavy
def test_two_brokers_may_be_away_at_a_time_if_asked() -> None:
    done = simulated({"minute": 3, "kind": "roll", "minutes": 4, "max_unavailable": 2}, minutes=70)
    away, most = 0, 0
    for one in done.timeline.memberships:
        away += 1 if one.change == "left" else -1
        most = max(most, away)
    assert (most, done.operations[0].state) == (2, "done")


@pytest.mark.heavy
def test_a_roll_of_some_brokers_leaves_the_others_alone() -> None:
    done = simulated({"minute": 3, "kind": "roll", "brokers": ["c"]}, minutes=30)
    assert changes_of(done) == [(C, "restarts"), (C, "restarted")]
    assert done.operations[0].what == "roll of 1"


@pytest.mark.heavy
def test_a_restart_that_takes_too_long_halts_the_roll() -> None:
    done = simulated({"minute": 3, "kind": "roll", "minutes": 30})
    (roll,) = done.operations
    assert (roll.state, roll.finished) == ("halted", False)
    assert "did not come back within 10 min" in roll.text


@pytest.mark.heavy
def test_a_broker_that_dies_meanwhile_halts_the_roll() -> None:
    done = simulated(
        {"minute": 3, "kind": "roll", "minutes": 2}, {"minute": 6, "kind": "kill", "brokers": ["d"]}
    )
    (roll,) = done.operations
    assert roll.state == "halted"
    assert f"{D} is missing in the list of brokers" in roll.text
