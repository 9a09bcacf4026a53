"""The closed loop: what is decided is carried out, and the next reports show it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from rebalancer.simulation.executor import REACTION_MS, SimulatedExecutor
from rebalancer.simulation.loop import EngineDecider, answer_of, closed_loop
from rebalancer.simulation.skewed import skewed_cluster
from strategies.engine import EngineSettings
from strategies.errors import ContractError
from strategies.model import Command, Expected
from strategies.shedding.registry import SHEDDERS

HALF = EngineSettings("avg", "fixed", SHEDDERS["avg"].settings(max_unload=0.5))


def command(bundle: str, source: str, destination: str | None, expires_at_ms: int = 10_000_000_000_000) -> Command:
    return Command(
        "id",
        "demo",
        1,
        1,
        "unload" if destination is None else "transfer",
        bundle,
        source,
        destination,
        "avg",
        "code",
        "text",
        {},
        Expected(),
        0,
        expires_at_ms,
    )


def test_a_skewed_cluster_is_balanced_and_stays_so() -> None:
    steps = list(islice(closed_loop(skewed_cluster(), EngineDecider(HALF)), 15))
    spreads = [step.round.spread.range for step in steps]
    assert spreads[0] > 0.75
    assert max(spreads[-5:]) < 0.15
    assert not any(step.commands for step in steps[-5:])
    assert [step.round.round for step in steps] == list(range(1, 16))


def test_every_command_gets_its_outcome_in_order() -> None:
    steps = list(islice(closed_loop(skewed_cluster(), EngineDecider(HALF)), 3))
    moving = next(step for step in steps if step.commands)
    assert [outcome.command_id for outcome in moving.outcomes] == [one.id for one in moving.commands]
    assert {outcome.status for outcome in moving.outcomes} == {"applied"}
    assert [outcome.ts for outcome in moving.outcomes] == sorted({outcome.ts for outcome in moving.outcomes})


def test_the_loop_is_deterministic() -> None:
    first, second = (list(islice(closed_loop(skewed_cluster(seed=3), EngineDecider(HALF)), 4)) for _ in range(2))
    assert first == second


def test_an_executor_applies_a_command_once() -> None:
    cluster = skewed_cluster()
    cluster.measure()
    bundle = cluster.model.bundles[0].name
    source = cluster.owner(bundle)
    assert source is not None
    move = command(bundle, source, "broker-3:8080")
    first, second = SimulatedExecutor(cluster).apply((move, move), now_ms=1000)
    assert (first.status, first.owner_before, first.owner_after) == ("applied", source, "broker-3:8080")
    assert first.ts == 1000 + REACTION_MS + first.took_ms
    assert (second.status, second.took_ms, second.owner_after) == ("already-done", 0, "broker-3:8080")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"destination": "nobody:1"}, "refused"),
        ({"bundle": "no/such/0x00000000_0x80000000"}, "refused"),
        ({"action": "split"}, "refused"),
        ({"action": "throttle"}, "refused"),
        ({"expires_at_ms": 5}, "expired"),
    ],
)
def test_an_executor_refuses_what_cannot_be_done(change: dict[str, object], status: str) -> None:
    cluster = skewed_cluster()
    bundle = cluster.model.bundles[0].name
    move = replace(command(bundle, str(cluster.owner(bundle)), "broker-3:8080"), **change)  # type: ignore[arg-type]
    (outcome,) = SimulatedExecutor(cluster).apply((move,), now_ms=1000)
    assert (outcome.status, outcome.owner_after) == (status, cluster.owner(move.bundle))
    assert outcome.reason


def test_a_collection_pass_without_a_round_is_an_error() -> None:
    with pytest.raises(ContractError, match="closed 0 rounds"):
        answer_of([])
