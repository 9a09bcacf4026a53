"""A run is written down as it goes: figures by broker, who came and went, what became of every
move.
"""

from dataclasses import replace

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, closed_loop
from pulsar_rebalancer.lab.simulation.timeline import Measured, Membership, Move, Timeline, Tracer
from strategies.cluster.model import Outcome, Round
from strategies.fold.engine import EngineSettings
from tests.world.timelines import A, B, C

RECORD = next(iter(closed_loop(skewed_cluster(), EngineDecider(EngineSettings())))).round


def a_round(number: int, **usage: float) -> Round:
    names = {"a": A, "b": B, "c": C}
    figures = {names[key]: value for key, value in usage.items()}
    ts = 60_000 * number
    return replace(RECORD, round=number, ts=ts, brokers=tuple(figures), usage=figures)


def traced(*rounds: Round) -> Timeline:
    tracer = Tracer(Timeline("a test", "recorded", strategy="avg/fixed"))
    for record in rounds:
        tracer.round(record, (), reached=False, measured={A: Measured(msg_throughput=5.0)})
    return tracer.timeline()


def test_a_broker_that_comes_later_has_no_figures_before() -> None:
    line = traced(a_round(1, a=0.5, b=0.25), a_round(2, a=0.5, b=0.25, c=0.0))
    assert line.brokers == (A, B, C)
    assert line.usage[1].tolist() == [0.5, 0.25, 0.0]
    assert np.isnan(line.usage[0, 2])
    assert line.spread().tolist() == [0.25, 0.5]
    assert line.memberships == (Membership(120_000, C, "joined", "first report"),)


def test_a_broker_that_is_no_longer_listed_has_left() -> None:
    line = traced(a_round(1, a=0.5, b=0.25), a_round(2, a=0.5))
    assert [(one.broker, one.change) for one in line.memberships] == [(B, "left")]
    assert line.spread().tolist() == [0.25, 0.0]


def test_what_is_not_known_is_nan_and_lasting_usage_is_usage_where_nobody_knows_better() -> None:
    line = traced(a_round(1, a=0.5, b=0.25))
    assert line.msg_throughput[0, 0] == 5.0
    assert np.isnan(line.msg_throughput[0, 1])
    assert line.lasting.tolist() == line.usage.tolist()


def test_a_round_without_brokers_has_no_spread() -> None:
    assert np.isnan(traced(a_round(1)).spread()).all()
    assert np.isnan(traced(a_round(1), a_round(2, a=0.5)).spread()[0])


@pytest.mark.heavy
def test_a_closed_loop_is_written_down_with_reasons_and_outcomes() -> None:
    tracer = Tracer(Timeline("demo", "simulated", strategy="avg/fixed"))
    loop = closed_loop(skewed_cluster("demo", 1, 64), EngineDecider(EngineSettings()))
    for _, step in zip(range(12), loop, strict=False):
        tracer.round(step.round, step.commands, reached=False)
        for outcome in step.outcomes:
            tracer.outcome(outcome)
    line = tracer.timeline()
    assert line.rounds == 12
    assert line.moved()
    assert {move.outcome for move in line.moves} == {"applied"}
    assert all(move.reason and move.code and move.destination for move in line.moves)


def test_a_move_that_was_refused_did_not_happen() -> None:
    move = Move(0, 0, "t/n/0x00000000_0xffffffff", A, B, "unload")
    assert move.happened
    assert not replace(move, outcome="refused").happened


def test_an_outcome_of_an_unknown_command_changes_nothing() -> None:
    tracer = Tracer(Timeline("a test", "recorded", strategy="avg/fixed"))
    tracer.outcome(Outcome("nobody's", "c1", "t/n/0x0_0x1", "applied", None, A, B, 5, 60_000))
    assert tracer.timeline().moves == ()


def test_arrays_are_read_only() -> None:
    line = traced(a_round(1, a=0.5))
    with pytest.raises(ValueError, match="read-only"):
        line.usage[0, 0] = 1.0
