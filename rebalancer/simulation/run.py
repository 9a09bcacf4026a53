"""One run of a scenario: the world reports, the engine's rounds decide, hands carry out, the next reports show it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rebalancer.simulation.broker_reports import Voices
from rebalancer.simulation.executor_model import Done, Hands, Placed
from rebalancer.simulation.leader import Leader
from rebalancer.simulation.metrics.figures import Figures, Truth, Yardstick, figures_of
from rebalancer.simulation.report_trigger import ReportTrigger
from rebalancer.simulation.scenarios.catalog import Named
from rebalancer.simulation.scenarios.schema import Happening, Scenario
from rebalancer.simulation.timeline import Membership, Move, Timeline
from rebalancer.simulation.tracing import Measured, Tracer
from rebalancer.simulation.world import PERIOD_S, World
from strategies.bundles.bundle_loads import Floats, Ints
from strategies.engine import Engine, EngineSettings, placement_of
from strategies.filters.policies import read_policies
from strategies.model import Command, Event, OutcomeReport, Policies, Round, Scalar, Sweep
from strategies.store import InMemoryStore

#: When virtual time starts: 2026-01-01 00:00 UTC.
START_MS = 1_767_225_600_000
_ANSWER_MS = 100
_LIMITED = "Brokers send no more than the dispatch limits of the scenario; {:,.0f} messages had not been read at the end."


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be made. `reached`: whether a round leaves the strategy nothing to do; `label`: its name in tables."""

    named: Named
    seed: int
    settings: EngineSettings
    reached: Callable[[Round], bool]
    label: str
    goal: str = ""
    shown: Mapping[str, Scalar] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The whole truth at the end of a round: `owner`: int64[bundles]; `traffic`: float64[4, bundles] without noise; who is there."""

    round: int
    owner: Ints
    traffic: Floats
    present: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a task. `snapshots`: the rounds in which something moved or happened, and the first and the last of all.

    `backlog`: messages that nobody had read yet at the end.
    """

    timeline: Timeline
    world: World
    snapshots: tuple[Snapshot, ...]
    backlog: float = 0.0

    @property
    def truth(self) -> Truth:
        """Sizes of bundles at the end, in percent of the first broker, and what brokers can carry."""
        fleet, traffic = self.world.fleet, self.snapshots[-1].traffic
        rows = [fleet.names.index(name) for name in self.timeline.brokers]
        sizes = (traffic[0] + traffic[1]) * fleet.per_message[0] + (traffic[2] + traffic[3]) * fleet.per_byte[0]
        messages, data = float(traffic[:2].sum()), float(traffic[2:].sum())
        cost = messages * fleet.per_message + data * fleet.per_byte
        strength = cost[0] / cost if cost.min() > 0 else np.ones(len(cost))
        return Truth(sizes, fleet.idle[rows] / 100, 100 * strength[rows])

    @cached_property
    def figures(self) -> Figures:
        """All figures of the run."""
        scenario = self.world.scenario
        by = Yardstick(scenario.target_points / 100, int(scenario.from_minute), calm=scenario.calm)
        return figures_of(self.timeline, by, self.truth)


def run(task: Task) -> Run:
    """Runs a scenario from its first to its last minute. Deterministic: nothing but the task matters."""
    return _Running(task).to_the_end()


class _Running:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._scenario = task.named.scenario
        self._cluster = f"{task.named.name}-{task.seed}"
        self._world = World(self._scenario, task.seed)
        self._store = InMemoryStore()
        late = self._scenario.placed_at_lookup and task.settings.mode == "parity"
        self._engine = Engine(replace(task.settings, placement="none") if late else task.settings)
        self._policies = json.dumps(self._scenario.policies, sort_keys=True) if self._scenario.policies else None
        leader = Leader(task.settings, self._cluster, self._store, read_policies(self._policies))
        self._hands = Hands(self._world, leader, START_MS, returns=late)
        written = self._scenario.reports == "written" or (self._scenario.reports == "auto" and task.settings.mode == "parity")
        trigger = ReportTrigger() if written else None
        self._voices = Voices(self._world, self._cluster, trigger)
        self._tracer = Tracer(
            title=self._scenario.title,
            kind="simulated",
            strategy=f"{task.settings.strategy}/{task.settings.mode}",
            placement=placement_of(task.settings)[0],
            goal=task.goal,
            seed=task.seed,
            interval_ms=int(PERIOD_S * 1000),
            settings=task.shown or {},
            notes=("A modelled cluster: its parameters are guesses where nobody published them (docs/SIMULATION.md).",),
        )
        self._due = _due(self._scenario)
        self._loads: list[tuple[float, Happening]] = []
        self._snapshots: list[Snapshot] = []
        self._untold: list[Done] = []

    def to_the_end(self) -> Run:
        rounds = self._scenario.minutes
        for number in range(rounds):
            now_s = number * PERIOD_S
            placed = self._happen(now_s)
            self._world.measure(now_s)
            record, commands = self._decide(now_s)
            usage, traffic = self._world.lasting(now_s)
            self._trace(record, commands, usage)
            done = self._hands.carry_out(commands, now_s)
            self._tell(done)
            self._untold += done
            if done or placed or number in (0, rounds - 1):
                self._snapshots.append(Snapshot(number, self._world.possession.owner.copy(), traffic, tuple(self._world.present.tolist())))
        backlog = float(self._world.backlog.sum())
        timeline = self._tracer.timeline(len(self._world.names))
        if self._world.dispatching is not None:
            timeline = replace(timeline, notes=(*timeline.notes, _LIMITED.format(backlog)))
        return Run(timeline, self._world, tuple(self._snapshots), backlog)

    def _decide(self, now_s: float) -> tuple[Round, tuple[Command, ...]]:
        now_ms = START_MS + int(now_s * 1000)
        # Hundreds of moves one after the other take longer than a round; nobody tells of one before it is done.
        done = sorted((one for one in self._untold if one.outcome.ts <= now_ms), key=lambda one: one.outcome.ts)
        self._untold = [one for one in self._untold if one.outcome.ts > now_ms]
        events: list[Event] = []
        if now_s == 0 and self._policies is not None:
            events += self._engine.fold(Policies(self._cluster, now_ms, self._policies), self._store)
        for one in done:
            events += self._engine.fold(OutcomeReport(self._cluster, one.outcome.ts, one.outcome), self._store)
        reports = self._voices.reports(now_ms)
        for report in reports:
            events += self._engine.fold(report, self._store)
        there = tuple(report.broker for report in reports)
        events += self._engine.fold(Sweep(self._cluster, now_ms + _ANSWER_MS, int(now_s // PERIOD_S) + 1, there, {}), self._store)
        rounds = [event for event in events if isinstance(event, Round)]
        assert len(rounds) == 1, f"a pass closed {len(rounds)} rounds"
        return rounds[0], tuple(event for event in events if isinstance(event, Command))

    def _trace(self, record: Round, commands: tuple[Command, ...], usage: Floats) -> None:
        totals = self._world.totals
        rate, data = totals[0] + totals[1], totals[2] + totals[3]
        names = self._world.fleet.names
        measured = {
            name: Measured(float(rate[n]), float(data[n]), float(usage[n])) for n, name in enumerate(names) if self._world.present[n]
        }
        traffic = {command.bundle: self._hands.traffic_of(command.bundle) for command in commands}
        self._tracer.round(record, commands, self._task.reached(record), measured, traffic)

    def _tell(self, done: Iterable[Done]) -> None:
        for one in done:
            self._tracer.outcome(one.outcome, one.topics, int(one.blip_s * 1000))

    def _happen(self, now_s: float) -> list[Placed]:
        """Everything that is due by now, in order of time."""
        placed: list[Placed] = []
        while self._due and self._due[0].minute * 60.0 <= now_s:
            placed += self._one(self._due.pop(0))
        self._world.foreign = np.zeros(len(self._world.present))
        self._loads = [(end, load) for end, load in self._loads if now_s < end]
        for _, load in self._loads:
            for name in load.brokers:
                self._world.foreign[self._world.fleet.names.index(_id(self._world, name))] += load.points
        for one in placed:
            self._tracer.add(self._as_move(one, now_s))
        return placed

    def _one(self, happening: Happening) -> list[Placed]:
        brokers = [_id(self._world, name) for name in happening.brokers]
        at_s = happening.minute * 60.0
        match happening.kind:
            case "load":
                self._loads.append((at_s + happening.minutes * 60.0, happening))
                return []
            case "join":
                self._hands.join(brokers)
                self._member(brokers, at_s, "joined", "joined")
                return []
            case "leave" | "kill":
                for name in brokers:
                    self._voices.forget(self._world.fleet.names.index(name))
                killed = happening.kind == "kill"
                self._member(brokers, at_s, "left", "killed" if killed else "drained")
                return self._hands.leave(brokers, at_s, killed)

    def _member(self, brokers: Iterable[str], at_s: float, change: str, why: str) -> None:
        for name in brokers:
            self._tracer.member(Membership(START_MS + int(at_s * 1000), name, "joined" if change == "joined" else "left", why))

    def _as_move(self, one: Placed, now_s: float) -> Move:
        return Move(
            round=int(now_s // PERIOD_S),
            ts=START_MS + int(one.at_s * 1000),
            bundle=one.bundle,
            source=one.source,
            destination=one.destination,
            kind="placed",
            code="broker-left",
            reason=f"{one.source} went away; the leader placed the bundle when its clients looked it up",
            traffic=one.traffic,
            topics=one.topics,
            blip_ms=int(one.blip_s * 1000),
        )


def _id(world: World, name: str) -> str:
    """The broker that a scenario calls `name`."""
    return world.fleet.names[world.scenario.broker_names.index(name)]


def _due(scenario: Scenario) -> list[Happening]:
    """Everything that will happen, in order of time; brokers that join later among it."""
    groups = zip(scenario.brokers, scenario.names_of_groups, strict=True)
    joins = [Happening(minute=group.joins, kind="join", brokers=names) for group, names in groups if group.joins]
    return sorted([*joins, *scenario.happenings], key=lambda one: one.minute)
