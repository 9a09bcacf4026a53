"""One run of a scenario: brokers report, the engine decides, the executor model applies, and the
next reports show the effect.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS, PERIOD_S, START_MS
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.disturbances import DisturbedReports, Rival
from pulsar_rebalancer.lab.simulation.executor_and_outage_model import CommandDone, ExecutorModel
from pulsar_rebalancer.lab.simulation.leader import Leader
from pulsar_rebalancer.lab.simulation.metrics.figures import (
    RunFigures,
    Truth,
    Yardstick,
    figures_of,
)
from pulsar_rebalancer.lab.simulation.metrics.operations import Operation, operations_of
from pulsar_rebalancer.lab.simulation.operators import Operators
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    RoundAnswer,
    outcome_reports,
)
from pulsar_rebalancer.lab.simulation.report_updates import BrokerReports
from pulsar_rebalancer.lab.simulation.scenarios.read_scenarios import Named
from pulsar_rebalancer.lab.simulation.scenarios.schema import Happening, Scenario
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import Disturbances
from pulsar_rebalancer.lab.simulation.timeline import Measured, Membership, Move, Timeline, Tracer
from strategies.bundles import Floats
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Policies, Round, Scalar, Sweep, TelemetryRecord
from strategies.filters.policies import read_policies
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.pulsar_versions_and_defaults import matches_ids

_ANSWER_MS = 100
#: Kind of a happening → why a broker left, as reports show it.
_WHY_LEFT = {"leave": "drained", "kill": "killed"}
_LIMITED = (
    "Brokers send no more than the dispatch limits of the scenario; {:,.0f} messages were "
    "unread at the end."
)


@dataclass(frozen=True, slots=True)
class SimulationTask:
    """Parameters of one run. `reached`: whether a round meets the strategy's goal; `record`:
    takes the telemetry of each round.
    """

    named: Named
    seed: int
    settings: EngineSettings
    reached: Callable[[Round], bool]
    goal: str = ""
    shown: Mapping[str, Scalar] | None = None
    record: Callable[[Sequence[TelemetryRecord]], None] = lambda _: None


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """The result of a task. `traffic`: float64[4, bundles], at the end and without noise;
    `backlog`: unread messages at the end; `operations`: the drains and rolls of the scenario.
    """

    scenario: Scenario
    timeline: Timeline
    world: World
    traffic: Floats
    backlog: float = 0.0
    operations: tuple[Operation, ...] = ()

    @property
    def truth(self) -> Truth:
        """Sizes of bundles at the end, in percent of the first broker, and the brokers'
        capacity.
        """
        fleet, traffic = self.world.fleet, self.traffic
        rows = [fleet.names.index(name) for name in self.timeline.brokers]
        sizes = self.world.costs * (
            (traffic[0] + traffic[1]) * fleet.per_message[0]
            + (traffic[2] + traffic[3]) * fleet.per_byte[0]
        )
        messages, data = float(traffic[:2].sum()), float(traffic[2:].sum())
        cost = messages * fleet.per_message + data * fleet.per_byte
        strength = cost[0] / cost if cost.min() > 0 else np.ones(len(cost))
        return Truth(sizes, fleet.idle[rows] / 100, 100 * strength[rows])

    @cached_property
    def figures(self) -> RunFigures:
        """All figures of the run."""
        scenario = self.scenario
        by = Yardstick(scenario.target_points / 100, int(scenario.from_minute), calm=scenario.calm)
        return figures_of(self.timeline, by, self.truth)


def run(task: SimulationTask) -> SimulatedRun:
    """Runs a scenario from its first to its last minute. Deterministic: the result depends on the
    task only.
    """
    return _Running(task).to_the_end()


class _Running:
    def __init__(self, task: SimulationTask) -> None:
        self._task = task
        self._scenario = task.named.scenario
        self._cluster = f"{task.named.name}-{task.seed}"
        self._world = drawn_world(self._scenario, task.seed)
        store = InMemoryStore()
        late = self._scenario.placed_at_lookup and task.settings.mode == "parity"
        self._decider = EngineDecider(
            replace(task.settings, placement="none") if late else task.settings, store
        )
        self._policies = (
            json.dumps(self._scenario.policies, sort_keys=True) if self._scenario.policies else None
        )
        by_id = matches_ids(task.settings.pulsar_version)
        policies = replace(read_policies(self._policies), by_id=by_id)
        self._executor = ExecutorModel(
            self._world,
            Leader(task.settings, self._cluster, store, policies),
            START_MS,
            returns=late,
            policies=policies,
        )
        written = self._scenario.reports == "written" or (
            self._scenario.reports == "auto" and task.settings.mode == "parity"
        )
        self._reports = BrokerReports(self._world, self._cluster, written)
        self._arriving = DisturbedReports(
            self._scenario.disturbances, task.seed, self._world.fleet.names
        )
        self._rival = Rival(self._scenario.disturbances.rival_an_hour, task.seed)
        self._tracer = Tracer(
            Timeline(
                title=self._scenario.title,
                kind="simulated",
                strategy=f"{task.settings.strategy}/{task.settings.mode}",
                placement=placement_of(task.settings)[0],
                goal=task.goal,
                seed=task.seed,
                interval_ms=PERIOD_MS,
                settings=task.shown or {},
                notes=(
                    "A modelled cluster: parameters that are not published are guesses "
                    "(docs/SIMULATION.md).",
                ),
            )
        )
        self._due = _due(self._scenario)
        self._operators = Operators(self._cluster, self._world.fleet.names)
        self._said: dict[int, tuple[IntentStatus, ...]] = {}
        self._loads: list[tuple[float, Happening]] = []
        self._pending: list[CommandDone] = []

    def to_the_end(self) -> SimulatedRun:
        traffic = np.zeros((4, 0))
        for number in range(self._scenario.minutes):
            now_s = number * PERIOD_S
            self._happen(now_s)
            self._world.measure(now_s)
            records = self._records(now_s)
            self._task.record(records)
            answer = self._decider.decide_if_closed(records)
            assert answer is not None or self._scenario.disturbances != Disturbances(), (
                "each pass of an undisturbed cluster closes a round"
            )
            usage, traffic = self._world.lasting(now_s)
            self._trace(answer, usage, now_s)
            done = self._executor.carry_out(() if answer is None else answer.commands, now_s)
            if answer is not None and answer.round.intents:
                self._said[number] = answer.round.intents
                self._roll_on(answer.round, now_s)
            for one in done:
                self._tracer.outcome(one.outcome, one.topics, int(one.blip_s * 1000))
            self._pending += done
        backlog = float(self._world.backlog.sum())
        timeline = self._tracer.timeline(len(self._world.names))
        if self._world.dispatching is not None:
            timeline = replace(timeline, notes=(*timeline.notes, _LIMITED.format(backlog)))
        return SimulatedRun(
            self._scenario,
            timeline,
            self._world,
            traffic,
            backlog,
            operations_of(timeline, self._said),
        )

    def _records(self, now_s: float) -> list[TelemetryRecord]:
        """Records that arrive in a round, in order."""
        now_ms = START_MS + int(now_s * 1000)
        # A sequence of hundreds of moves takes longer than a round; an outcome is published when
        # its move is done.
        done = sorted(
            (one.outcome for one in self._pending if one.outcome.ts <= now_ms),
            key=lambda outcome: outcome.ts,
        )
        self._pending = [one for one in self._pending if one.outcome.ts > now_ms]
        policies = (
            [Policies(self._cluster, now_ms, self._policies)]
            if now_s == 0 and self._policies is not None
            else []
        )
        reports = self._reports.reports(now_ms)
        arriving, missing = self._arriving.of_round(reports)
        sweep = Sweep(
            self._cluster,
            now_ms + _ANSWER_MS,
            int(now_s // PERIOD_S) + 1,
            tuple(report.broker for report in reports if report.broker not in missing),
            dict.fromkeys(missing, "no answer"),
        )
        records = self._operators.records()
        return [*policies, *outcome_reports(done), *records, *arriving, sweep]

    def _trace(self, answer: RoundAnswer | None, usage: Floats, now_s: float) -> None:
        totals = self._world.totals
        rate, data = totals[0] + totals[1], totals[2] + totals[3]
        if answer is None:
            there = np.flatnonzero(self._world.present)
            figures = [one[np.newaxis, there] for one in (usage, rate, data, usage)]
            now_ms = np.array([START_MS + int(now_s * 1000)])
            names = [self._world.fleet.names[row] for row in there.tolist()]
            self._tracer.block(self._cluster, now_ms, names, figures, [False])
            return
        measured = {
            name: Measured(float(rate[n]), float(data[n]), float(usage[n]))
            for n, name in enumerate(self._world.fleet.names)
            if self._world.present[n]
        }
        traffic = {
            command.bundle: self._executor.traffic_of(command.bundle) for command in answer.commands
        }
        self._tracer.round(
            answer.round, answer.commands, self._task.reached(answer.round), measured, traffic
        )

    def _happen(self, now_s: float) -> None:
        """Applies all happenings that are due, in order of time."""
        placed: list[Move] = []
        back = self._operators.back(START_MS + int(now_s * 1000))
        self._executor.join(back)
        self._member(back, now_s, "joined", "restarted")
        while self._due and self._due[0].minute * 60.0 <= now_s:
            placed += self._one(self._due.pop(0), int(now_s // PERIOD_S))
        self._world.foreign = np.zeros(len(self._world.present))
        self._loads = [(end, load) for end, load in self._loads if now_s < end]
        for moved in [*self._rival.moves(self._world, now_s), *placed]:
            self._tracer.add(moved)
        for _, load in self._loads:
            for name in load.brokers:
                self._world.foreign[self._world.fleet.names.index(self._id(name))] += load.points

    def _roll_on(self, done: Round, now_s: float) -> None:
        """Lets the processes of rolls act on a round: brokers leave, to restart."""
        now_ms = START_MS + int(now_s * 1000)
        leaving = self._operators.restarts(done, self._executor.present(), now_ms)
        if leaving:
            for moved in self._leave(leaving, now_s, "restarts", int(now_s // PERIOD_S)):
                self._tracer.add(moved)

    def _one(self, happening: Happening, round_: int) -> list[Move]:
        brokers = [self._id(name) for name in happening.brokers]
        at_s = happening.minute * 60.0
        match happening.kind:
            case "load":
                self._loads.append((at_s + happening.minutes * 60.0, happening))
                return []
            case "join":
                self._executor.join(brokers)
                self._member(brokers, at_s, "joined", "joined")
                for name in brokers:
                    self._operators.joined(name, START_MS + int(at_s * 1000))
                return []
            case "leave" | "kill":
                return self._leave(brokers, at_s, _WHY_LEFT[happening.kind], round_)
            case "drain" | "undrain" | "roll":
                now_ms = START_MS + int(at_s * 1000)
                self._operators.happen(happening, brokers, self._executor.present(), now_ms)
                return []

    def _leave(self, brokers: Sequence[str], at_s: float, why: str, round_: int) -> list[Move]:
        for name in brokers:
            self._reports.forget(self._world.fleet.names.index(name))
        self._member(brokers, at_s, "left", why)
        return self._executor.leave(brokers, at_s, why == _WHY_LEFT["kill"], round_)

    def _id(self, name: str) -> str:
        """The broker with this name in the scenario."""
        return self._world.fleet.names[self._scenario.broker_names.index(name)]

    def _member(self, brokers: Iterable[str], at_s: float, change: str, why: str) -> None:
        for name in brokers:
            self._tracer.member(
                Membership(
                    START_MS + int(at_s * 1000),
                    name,
                    "joined" if change == "joined" else "left",
                    why,
                )
            )


def _due(scenario: Scenario) -> list[Happening]:
    """All happenings in order of time, including brokers that join later."""
    joins = [
        Happening(minute=group.joins, kind="join", brokers=names)
        for group, names in zip(scenario.brokers, scenario.names_of_groups, strict=True)
        if group.joins
    ]
    return sorted([*joins, *scenario.happenings], key=lambda one: one.minute)
