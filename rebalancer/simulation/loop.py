"""The closed loop: a modelled cluster reports, something decides, a simulated executor applies, the next reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.executor import SimulatedExecutor
from rebalancer.simulation.telemetry import Observation, collection_pass, outcome_reports, to_record
from strategies.engine import Engine, EngineSettings
from strategies.errors import ContractError
from strategies.model import Command, Event, Outcome, Round
from strategies.store import InMemoryStore


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided on one collection pass: the round and its commands in order of execution."""

    round: Round
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the loop: the answer, and what became of its commands."""

    round: Round
    commands: tuple[Command, ...]
    outcomes: tuple[Outcome, ...]


class Decider(Protocol):
    """Whatever turns telemetry into decisions: the engine itself, the plain loop, the streaming job."""

    def decide(self, observations: Sequence[Observation]) -> Answer:
        """Takes everything seen since the last call, ending with a sweep, and returns the round that this sweep closed."""


class EngineDecider:
    """Asks the engine directly, without topics or JSON."""

    def __init__(self, settings: EngineSettings) -> None:
        self._engine, self._store = Engine(settings), InMemoryStore()

    def decide(self, observations: Sequence[Observation]) -> Answer:
        return answer_of([event for seen in observations for event in self._engine.fold(to_record(seen), self._store)])


def answer_of(events: Sequence[Event]) -> Answer:
    """Commands and their round out of a list of events; raises ContractError unless it holds exactly one round."""
    rounds = [event for event in events if isinstance(event, Round)]
    if len(rounds) != 1:
        raise ContractError(f"a sweep of the modelled cluster closed {len(rounds)} rounds instead of one; events: {events!r:.500}")
    return Answer(rounds[0], tuple(event for event in events if isinstance(event, Command)))


def closed_loop(cluster: SimulatedCluster, decider: Decider) -> Iterator[Step]:
    """Turns for ever, one statistics period of virtual time each; the caller stops when it has seen enough."""
    executor, outcomes = SimulatedExecutor(cluster), tuple[Outcome, ...]()
    while True:
        answer = decider.decide([*outcome_reports(outcomes), *collection_pass(cluster)])
        outcomes = executor.apply(answer.commands, answer.round.ts)
        yield Step(answer.round, answer.commands, outcomes)
