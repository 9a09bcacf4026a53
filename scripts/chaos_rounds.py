"""Random rounds with failures of every kind.

Brokers join, leave and die; load rises to 120 %; half the time one bundle is hot; reports are lost,
late, repeated and out of order; commands are lost, applied twice or applied late; outcomes are lost
or late. `harsh` runs also have a broker with a wrong clock, commands that are refused or end on
another broker, and bundles that are split. The seed determines everything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clock import PERIOD_S, START_MS
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.executor_and_outage_model import ExecutorModel
from pulsar_rebalancer.lab.simulation.leader import Leader
from pulsar_rebalancer.lab.simulation.noise import Stream
from pulsar_rebalancer.lab.simulation.report_updates import BrokerReports
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from scripts.invariants import Invariants
from scripts.steady_invariants import SteadyInvariants
from strategies.bundles import parse_bundle
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
from strategies.settings import LimitSettings
from strategies.shedding.steady.settings import SteadySettings

_CLUSTER = "chaos"
#: Probabilities per round: a broker joins or leaves, load steps, the hot bundle appears or
#: disappears.
_MEMBERS, _STEP, _HOT = 0.03, 0.02, 0.01
#: Probabilities per report, command and outcome. Delays are up to that number of rounds; some
#: commands expire meanwhile.
_LOST, _LATE, _TWICE, _LATE_ROUNDS, _SLOW_ROUNDS = 0.03, 0.03, 0.03, 3, 7
#: Of harsh runs, per command and round; difference of the wrong clock.
_REFUSED, _ELSEWHERE, _SPLIT, _CLOCK_MS = 0.05, 0.05, 0.01, 20_000
#: Part of all sweeps that lead to a round, whatever one clock shows.
_LEAST_CLOSED = 0.8
_BROKERS, _FEWEST, _BUNDLES = 8, 3, 96
_LONGEST_MIN = 20_000


@dataclass(frozen=True, slots=True)
class Chaos:
    """The result. `imbalance`: (max − mean) ÷ mean of the lasting usage, per round; `churn`: mean
    fraction of all traffic that changed brokers per hour; `disturbed`: number of failures of each
    kind; `broken`: violated invariants.
    """

    rounds: int
    imbalance: tuple[float, ...]
    churn: float
    commands: int
    moves: int
    reports: int
    taken: int
    refused: int
    disturbed: dict[str, int]
    broken: tuple[str, ...]


def chaos(
    seed: int,
    settings: EngineSettings,
    rounds: int,
    promised: LimitSettings | None = None,
    *,
    harsh: bool = False,
    engine_of: Callable[[EngineSettings], Engine] = Engine,
) -> Chaos:
    """Runs random rounds of one cluster. Raises nothing: `broken` lists violated invariants.

    `promised`: the limits that commands must respect; those of the settings by default.
    """
    invariants = Invariants(settings.mode, promised or settings.limits)
    chosen = settings.chosen
    steady = SteadyInvariants(chosen) if isinstance(chosen, SteadySettings) else None
    return _Chaos(seed, settings, engine_of(settings), invariants, steady, harsh).run(rounds)


def _scenario(seed: int) -> Scenario:
    """Mean load steps between 40 and 120 % of the brokers' total capacity; the hot bundle appears
    and disappears.
    """
    stream = Stream(seed, 100)
    return Scenario.model_validate(
        {
            "title": "chaos",
            "minutes": 2,
            "bundles": _BUNDLES,
            "machines": {"plain": {"cores": 16, "cpu_idle": 5, "cpu_per_mib": 8}},
            "noise": {"traffic": 0.02, "wander": 0.05, "cpu_points": 1.5},
            "brokers": [{"machine": "plain", "count": _BROKERS}],
            "traffic": [
                {
                    "name": "all",
                    "mib_in": 76 * _BROKERS,
                    "partitions": 6 * _BUNDLES,
                    "wave": {"kind": "steps", "at": _steps(stream, _STEP, None)},
                },
                {
                    "name": "hot",
                    "mib_in": 40,
                    "partitions": 1,
                    "wave": {"kind": "steps", "at": _steps(stream, _HOT, float(seed % 2))},
                },
            ],
        }
    )


def _present(world: World) -> set[str]:
    there = zip(world.fleet.names, world.present.tolist(), strict=True)
    return {name for name, present in there if present}


def _steps(stream: Stream, chance: float, first: float | None) -> list[tuple[float, float]]:
    """Pairs of minute and factor: random between 0.5 and 1.5, or `first` and its opposite
    alternately.
    """
    steps, minute, factor = list[tuple[float, float]](), 0.0, first
    while minute < _LONGEST_MIN:
        if factor is not None:
            steps.append((minute, factor))
            factor = 1.0 - factor
        minute += 1 + float(np.floor(2 * stream.uniform(1)[0] / chance))
        if factor is None:
            steps.append((minute, 0.5 + stream.uniform(1)[0]))
    return steps


@dataclass(slots=True)
class _Chaos:
    seed: int
    settings: EngineSettings
    engine: Engine
    invariants: Invariants
    steady: SteadyInvariants | None
    harsh: bool
    _waiting: list[tuple[int, TelemetryRecord]] = field(default_factory=list)
    _slow: list[tuple[int, Command]] = field(default_factory=list)
    _broken: list[str] = field(default_factory=list)
    _commands: int = 0
    _moves: int = 0
    _moved: float = 0.0
    _disturbed: dict[str, int] = field(default_factory=dict)
    _wrong_clock: str = ""
    _closed: int = 0
    _members: set[str] = field(default_factory=set)

    def run(self, rounds: int) -> Chaos:
        world = drawn_world(_scenario(self.seed), self.seed)
        self._wrong_clock = world.fleet.names[self.seed % _BROKERS]
        store, chance = InMemoryStore(), Stream(self.seed, 101)
        executor = ExecutorModel(world, Leader(self.settings, _CLUSTER, store), START_MS)
        reports, imbalance, carried = (
            BrokerReports(world, _CLUSTER, written=False),
            list[float](),
            0.0,
        )
        harm, alive = Stream(self.seed, 102), _present(world)
        for number in range(rounds):
            now_s = number * PERIOD_S
            self._change_members(world, executor, chance, now_s)
            if self.harsh:
                self._split(world, harm)
            world.measure(now_s)
            commands = list[Command]()
            before, alive = alive, _present(world)
            self._members |= alive
            believed = {*alive, *({self._wrong_clock} & before if self.harsh else ())}
            for record in self._records(reports, chance, number):
                commands += self._fold(record, store, believed)
            if self.harsh:
                commands = self._harmed(commands, sorted(alive), harm, number, now_s)
            self._carry_out(commands, executor, chance, number, now_s)
            usage, traffic = world.lasting(now_s)
            known = usage[np.isfinite(usage)]
            imbalance.append(float((known.max() - known.mean()) / known.mean()))
            carried += float(traffic[2:].sum())
            self._note_broken(number)
        kept, hours = self.invariants, rounds * PERIOD_S / 3600
        if self._closed < _LEAST_CLOSED * rounds - 1:  # a short run may lose one all the same
            self._broken.append(f"{self._closed} of {rounds} sweeps closed a round")
        return Chaos(
            rounds,
            tuple(imbalance),
            self._moved / (carried / rounds) / hours,
            self._commands,
            self._moves,
            kept.reports,
            kept.taken,
            kept.refused,
            dict(sorted(self._disturbed.items())),
            tuple(self._broken),
        )

    def _fold(
        self, record: TelemetryRecord, store: InMemoryStore, alive: set[str]
    ) -> list[Command]:
        """The commands of a record, if it closes a round. Checks all invariants. Every sweep closes
        one, unless a wrong clock closes rounds earlier. `alive`: present brokers; one with a wrong
        clock counts as present for one round more, and a round that no sweep closes has the brokers
        that were present since the last one that a sweep closed (decision 0022).
        """
        events = self.engine.fold(record, store)
        if isinstance(record, LoadReport):
            self.invariants.report(record, events, store)
        now_ms = next((event.ts for event in events if isinstance(event, Round)), None)
        if now_ms is None and (self.harsh or not isinstance(record, Sweep)):
            return []
        self._closed += 1
        if isinstance(record, Sweep):
            self._members = alive
        believed = alive | self._members
        commands = self.invariants.round(events, believed, now_ms or record.ts, store)
        self._commands += len(commands)
        if self.steady is not None:
            self.invariants.broken += self.steady.round(now_ms or record.ts, commands, store)
        return commands

    def _records(
        self, broker_reports: BrokerReports, chance: Stream, number: int
    ) -> Iterator[TelemetryRecord]:
        """Records that arrive in this round: delayed ones first, then reports in random order, then
        the sweep.
        """
        now_ms = START_MS + int(number * PERIOD_S * 1000)
        due = [record for when, record in self._waiting if when <= number]
        self._waiting = [(when, record) for when, record in self._waiting if when > number]
        reports = [self._timed(report) for report in broker_reports.reports(now_ms)]
        kept: list[LoadReport] = []
        for report, dice in zip(reports, chance.uniform(len(reports)).tolist(), strict=True):
            kept += [report] * self._copies("report", dice, chance, number, report)
        arriving = [*due, *kept]
        order = np.argsort(chance.uniform(len(arriving)), kind="stable").tolist()
        yield from (arriving[place] for place in order)
        answered = {report.broker for report in kept}
        missing = {
            report.broker: "no answer" for report in reports if report.broker not in answered
        }
        yield Sweep(_CLUSTER, now_ms + 100, number + 1, tuple(sorted(answered)), missing)

    def _copies(
        self, what: str, dice: float, chance: Stream, number: int, record: TelemetryRecord
    ) -> int:
        """Number of copies of a record that arrive now; 0 if it is lost or late."""
        if dice < _LOST:
            self._count(f"{what} lost")
            return 0
        if dice < _LOST + _LATE:
            self._count(f"{what} late")
            self._waiting.append((number + chance.whole((1, _LATE_ROUNDS)), record))
            return 0
        twice = dice < _LOST + _LATE + _TWICE
        self._count(f"{what} twice", int(twice))
        return 1 + twice

    def _carry_out(
        self,
        commands: Sequence[Command],
        executor: ExecutorModel,
        chance: Stream,
        number: int,
        now_s: float,
    ) -> None:
        """Applies commands: some are lost, some wait for a slow executor, some are applied
        twice.
        """
        now = [command for when, command in self._slow if when <= number]
        self._slow = [(when, command) for when, command in self._slow if when > number]
        for command, dice in zip(commands, chance.uniform(len(commands)).tolist(), strict=True):
            if dice < _LOST:
                self._count("command lost")
            elif dice < _LOST + _LATE:
                self._count("command slow")
                self._slow.append((number + chance.whole((1, _SLOW_ROUNDS)), command))
            else:
                twice = dice < _LOST + _LATE + _TWICE
                self._count("command twice", int(twice))
                now += [command] * (1 + twice)
        traffic = {command.bundle: executor.traffic_of(command.bundle) for command in now}
        for done in executor.carry_out(now, now_s):
            outcome = done.outcome
            applied = outcome.status == "applied"
            self._moves += applied
            self._moved += traffic[outcome.bundle] if applied else 0.0
            self._count("command expired", int(outcome.status == "expired"))
            self._report_outcome(outcome, chance, number)

    def _report_outcome(self, outcome: Outcome, chance: Stream, number: int) -> None:
        self.invariants.finished(outcome.bundle)
        if self.steady is not None and outcome.status not in ("applied", "already-done"):
            self.steady.failed(outcome.bundle)
        record = OutcomeReport(_CLUSTER, outcome.ts, outcome)
        copies = self._copies("outcome", float(chance.uniform(1)[0]), chance, number, record)
        self._waiting += [(number + 1, record)] * copies

    def _timed(self, report: LoadReport) -> LoadReport:
        """The report with the time of its broker: in harsh runs, one broker's clock is wrong."""
        if not (self.harsh and report.broker == self._wrong_clock):
            return report
        self._count("clock wrong")
        return replace(report, ts=report.ts + _CLOCK_MS * (-1) ** self.seed)

    def _harmed(
        self,
        commands: Sequence[Command],
        alive: Sequence[str],
        harm: Stream,
        number: int,
        now_s: float,
    ) -> list[Command]:
        """The commands that an executor takes: some are refused, some end on another broker."""
        taken = list[Command]()
        for command, dice in zip(commands, harm.uniform(len(commands)).tolist(), strict=True):
            if dice < _REFUSED:
                self._count("command refused")
                self._report_outcome(_refusal(command, now_s), harm, number)
            elif dice < _REFUSED + _ELSEWHERE:
                self._count("command elsewhere")
                others = [name for name in alive if name != command.source]
                where = others[harm.whole((0, len(others) - 1))]
                taken.append(replace(command, destination=where))
            else:
                taken.append(command)
        return taken

    def _split(self, world: World, harm: Stream) -> None:
        """Lets an operator split a bundle, at random."""
        dice, which = harm.uniform(2).tolist()
        if dice < _SPLIT:
            parsed = parse_bundle(world.names[int(which * len(world.names))])
            if parsed is not None and parsed[1].can_split:
                range_ = parsed[1]
                world.split(int(which * len(world.names)), (range_.lower + range_.upper) // 2)
                self._count("bundle splits")

    def _change_members(
        self, world: World, executor: ExecutorModel, chance: Stream, now_s: float
    ) -> None:
        """Lets a broker leave or die, or a former one return, at random."""
        dice, which, how = chance.uniform(3).tolist()
        if dice >= _MEMBERS:
            return
        there, gone = np.flatnonzero(world.present), np.flatnonzero(~world.present)
        if how < 0.5 and len(gone):
            self._count("broker joins")
            executor.join([world.fleet.names[int(gone[int(which * len(gone))])]])
        elif len(there) > _FEWEST:
            self._count("broker dies" if how > 0.75 else "broker leaves")
            executor.leave(
                [world.fleet.names[int(there[int(which * len(there))])]], now_s, how > 0.75, 0
            )

    def _count(self, what: str, times: int = 1) -> None:
        if times:
            self._disturbed[what] = self._disturbed.get(what, 0) + times

    def _note_broken(self, number: int) -> None:
        fresh = self.invariants.broken[len(self._broken) :]
        self._broken += [
            f"seed {self.seed}, round {number}, "
            f"{self.settings.strategy}/{self.settings.mode}: {what}"
            for what in fresh
        ]


def _refusal(command: Command, now_s: float) -> Outcome:
    at_ms = START_MS + int(now_s * 1000) + 500
    return Outcome(
        command.id,
        command.cluster,
        command.bundle,
        "refused",
        "not now",
        command.source,
        command.source,
        0,
        at_ms,
    )
