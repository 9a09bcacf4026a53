"""The closed loop: a modelled cluster reports, a decider decides, the executor model applies, and
the next reports show the effect.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS, PERIOD_S, START_MS
from pulsar_rebalancer.lab.simulation.executor_and_outage_model import ExecutorModel
from pulsar_rebalancer.lab.simulation.leader import LongTermRates
from pulsar_rebalancer.lab.simulation.report_updates import BrokerReports
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import (
    Command,
    LoadReport,
    Outcome,
    OutcomeReport,
    Round,
    Sweep,
    TelemetryRecord,
)
from strategies.fold.engine import Engine, EngineSettings

#: Time until a broker's answer arrives.
ANSWER_MS = 12


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """The decision on one collection pass: the round and its commands in order of execution, and
    their outcomes, once they are carried out.
    """

    round: Round
    commands: tuple[Command, ...]
    outcomes: tuple[Outcome, ...] = ()


class Decider(Protocol):
    """Turns telemetry into decisions: the engine, the plain loop, or the streaming job."""

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        """Takes all records since the last call, of which the last is a sweep, and returns the
        round that this sweep closes.
        """


class EngineDecider:
    """Calls the engine directly, without topics or JSON. `store`: its state, which the caller may
    read between rounds.
    """

    def __init__(self, settings: EngineSettings, store: InMemoryStore | None = None) -> None:
        self._engine, self._store = Engine(settings), store or InMemoryStore()

    def decide(self, records: Sequence[TelemetryRecord]) -> RoundAnswer:
        answer = self.decide_if_closed(records)
        assert answer is not None, "each pass of an undisturbed cluster closes a round"
        return answer

    def decide_if_closed(self, records: Sequence[TelemetryRecord]) -> RoundAnswer | None:
        """As `decide`, but None if no round closed: a wrong clock may close a round early, so that
        the sweep after it comes too soon. Of several rounds, the last with the commands of all.
        """
        events = [event for record in records for event in self._engine.fold(record, self._store)]
        rounds = [event for event in events if isinstance(event, Round)]
        commands = tuple(event for event in events if isinstance(event, Command))
        return RoundAnswer(rounds[-1], commands) if rounds else None


class PolledCluster:
    """A world seen by its collector and executor: one pass over all brokers per statistics period,
    and commands between passes.
    """

    def __init__(self, world: World, name: str, start_ms: int = START_MS) -> None:
        self.world, self.name, self.start_ms = world, name, start_ms
        self._reports = BrokerReports(world, name, written=False)
        self._leader = LongTermRates(world)
        self._executor = ExecutorModel(world, self._leader, start_ms)
        self._passes = 0

    def collect(self, silent: Collection[str] = ()) -> tuple[TelemetryRecord, ...]:
        """Advances by one period: returns a report per broker that is not `silent`, then the sweep
        marker that closes the pass.
        """
        self.world.measure(self._passes * PERIOD_S)
        self._leader.learn()
        now_ms = self.start_ms + self._passes * PERIOD_MS
        self._passes += 1
        reports = [
            report for report in self._reports.reports(now_ms) if report.broker not in silent
        ]
        arriving = [
            replace(one, ts=now_ms + ANSWER_MS * place, digest=_digest(one))
            for place, one in enumerate(reports, 1)
        ]
        return *arriving, Sweep(
            self.name,
            now_ms + ANSWER_MS * len(self.world.fleet.names),
            self._passes,
            tuple(report.broker for report in reports),
            dict.fromkeys(silent, "no answer"),
        )

    def carry_out(self, commands: Sequence[Command], now_ms: int) -> tuple[Outcome, ...]:
        """Applies commands and returns their outcomes, in order. `now_ms`: time at which their
        round closed.
        """
        return tuple(
            done.outcome
            for done in self._executor.carry_out(commands, (now_ms - self.start_ms) / 1000)
        )


def closed_loop(cluster: PolledCluster, decider: Decider) -> Iterator[RoundAnswer]:
    """Iterates without end; each step takes one statistics period of virtual time. The caller stops
    the iteration.
    """
    outcomes = tuple[Outcome, ...]()
    while True:
        answer = decider.decide([*outcome_reports(outcomes), *cluster.collect()])
        outcomes = cluster.carry_out(answer.commands, answer.round.ts)
        yield replace(answer, outcomes=outcomes)


def outcome_reports(outcomes: Sequence[Outcome]) -> tuple[OutcomeReport, ...]:
    """Outcomes as telemetry records."""
    return tuple(OutcomeReport(outcome.cluster, outcome.ts, outcome) for outcome in outcomes)


def _digest(report: LoadReport) -> str:
    """A digest of a report's figures: a report with the same digest is not a new sample."""
    assert report.figures is not None
    assert report.bundles is not None
    content = (
        repr((report.figures.cpu, report.figures.traffic, report.bundles.names)).encode()
        + report.bundles.traffic.tobytes()
    )
    return hashlib.sha256(content).hexdigest()[:32]
