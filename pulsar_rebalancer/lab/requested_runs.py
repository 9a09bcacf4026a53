"""The runs that a command line requests, each scenario with each strategy and seed: makes their
list, and performs them in this process or in several. Results are in the order of the requests.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import Any

from pulsar_rebalancer.lab.processes import run_each
from pulsar_rebalancer.lab.simulation.metrics.figures import RunFigures
from pulsar_rebalancer.lab.simulation.metrics.operations import Operation
from pulsar_rebalancer.lab.simulation.scenario_loop import SimulatedRun, SimulationTask, run
from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
from pulsar_rebalancer.lab.simulation.scenarios.schema import Scenario
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.lab.strategy_goal import goal_of
from pulsar_rebalancer.settings.merge_sources import Settings, resolved
from pulsar_rebalancer.settings.setting_paths import Shedders, all_leaves
from pulsar_rebalancer.settings.value_sources import Assignment, flattened, from_flags, parse
from sinks.recordings.copy_topic import new_recording
from sinks.wire.operator_records import encode_intent
from strategies.cluster.intent_records_and_states import Intent
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings, placement_of
from strategies.shedding.registry import SHEDDERS

#: Abbreviations of placements that are usual among Pulsar's users.
SHORT = {
    "least_resource_usage": "LRUW",
    "least_resource_usage_extensible": "LRUW",
    "least_long_term_rate": "LLTMR",
}


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy as on the command line: `name`, `name/mode`, `name/mode+placement`; None = that of
    the scenario.
    """

    name: str
    mode: str | None = None
    placement: str | None = None

    @classmethod
    def read(cls, text: str) -> "StrategyChoice":
        """Parses a choice. Raises SettingsError if the part before / or + is empty."""
        head, _, placement = text.partition("+")
        name, _, mode = head.partition("/")
        if not name:
            raise SettingsError(
                [
                    f"--strategy {text!r}: write name, name/mode or name/mode+placement, for "
                    "example avg/parity"
                ]
            )
        return cls(name, mode or None, placement or None)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run. `scenario`: a name or a path; `choice` None = the scenario's own strategy;
    `changes`: top-level keys of the scenario; `record`: the recording of its telemetry.
    """

    scenario: str
    seed: int
    choice: StrategyChoice | None = None
    mode: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    shedders: Shedders = SHEDDERS
    record: Path | None = None

    def task(self) -> SimulationTask:
        """The task of the run. Raises SettingsError with all errors of the scenario and the
        settings.
        """
        named = read_scenarios.load(self.scenario, self.changes)
        settings = self.settings(named.scenario)
        goal = goal_of(settings.engine)
        shown = {
            entry.leaf.path: entry.value for entry in settings.entries if entry.kind != "default"
        }
        return SimulationTask(named, self.seed, settings.engine, goal.reached, goal.text, shown)

    def settings(self, scenario: Scenario) -> Settings:
        """The scenario's settings, overridden by those of the strategy, then by the command line.
        Raises SettingsError.
        """
        leaves = all_leaves(self.shedders)
        by_path = {leaf.path: leaf for leaf in leaves}
        place = f"[settings] of {self.scenario}"
        own = [
            Assignment(
                path,
                parse(value, by_path.get(path)) if isinstance(value, str) else value,
                "file",
                place,
            )
            for path, value in flattened(scenario.settings)
        ]
        given, wrong = from_flags(self.overrides, leaves)
        return resolved([*own, *self._strategy(scenario), *given], wrong, self.shedders)

    def _strategy(self, scenario: Scenario) -> list[Assignment]:
        """Assignments of strategy, mode and placement: from the command line, otherwise from the
        scenario.
        """
        own, choice = scenario.strategy, self.choice or StrategyChoice(scenario.strategy.name)
        kept = own.placement if choice.name == own.name else "auto"
        said = (
            ("shedding.strategy", (self.choice and choice.name, "--strategy"), own.name),
            (
                "shedding.mode",
                (choice.mode, "--strategy") if choice.mode else (self.mode, "--mode"),
                own.mode,
            ),
            ("placement.strategy", (choice.placement, "--strategy"), kept),
        )
        place = f"[strategy] of {self.scenario}"
        return [
            Assignment(path, value, "flag", flag)
            if value
            else Assignment(path, default, "file", place)
            for path, (value, flag), default in said
        ]


def run_requests(
    scenarios: Sequence[str],
    strategies: Sequence[str],
    seeds: Sequence[int],
    *,
    mode: str | None = None,
    changes: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    shedders: Shedders = SHEDDERS,
) -> list[RunRequest]:
    """All requested runs, ordered by scenario, then strategy, then seed.

    `all` as a strategy requests every strategy, each with its published placement.
    """
    every = [
        StrategyChoice(one.name, placement=one.published_placement) for one in shedders.values()
    ]
    choices = [
        choice
        for text in strategies
        for choice in (every if text == "all" else [StrategyChoice.read(text)])
    ]
    return [
        RunRequest(scenario, seed, choice, mode, changes or {}, tuple(overrides), shedders)
        for scenario in scenarios
        for choice in dict.fromkeys(choices) or [None]
        for seed in seeds
    ]


def checked(requests: Sequence[RunRequest]) -> None:
    """Checks all requests. Raises SettingsError with all errors."""
    complaints: dict[str, None] = {}
    for request in requests:
        try:
            request.task()
        except SettingsError as error:
            complaints |= dict.fromkeys(error.complaints)
    if complaints:
        raise SettingsError(list(complaints))


def label(engine: EngineSettings) -> str:
    """The label of a strategy in tables, such as `threshold/parity+LRUW`."""
    placement = placement_of(engine)[0]
    return f"{engine.strategy}/{engine.mode}+{SHORT.get(placement, placement)}"


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a requested run, with its timeline if that is kept. `backlog`: unread messages
    at the end.

    `limited`: whether the scenario states dispatch limits; `operations`: its drains and rolls.
    """

    request: RunRequest
    scenario: str
    label: str
    figures: RunFigures
    backlog: float
    limited: bool
    timeline: Timeline | None = None
    operations: tuple[Operation, ...] = ()


def make(request: RunRequest, keep: bool = False) -> Made:
    """Performs one run. `keep`: keeps its timeline. Raises SinkError if it cannot be recorded."""
    task = request.task()
    done = run(task) if request.record is None else _recorded(task, request.record)
    return Made(
        request,
        task.named.name,
        label(task.settings),
        done.figures,
        done.backlog,
        done.world.dispatching is not None,
        done.timeline if keep else None,
        done.operations,
    )


def _recorded(task: SimulationTask, target: Path) -> SimulatedRun:
    writer = TelemetryWriter()
    with new_recording(target) as file:
        return run(
            replace(
                task,
                record=lambda records: file.append(
                    encode_intent(one) if isinstance(one, Intent) else writer.json(one)
                    for one in records
                ),
            )
        )


def make_all(
    requests: Sequence[RunRequest],
    jobs: int,
    advance: Callable[[], None],
    keep: Callable[[RunRequest], bool] = lambda _: False,
) -> list[Made]:
    """Performs all runs. Calls `advance` after each; `keep`: requests whose timelines are kept."""
    return run_each(
        [partial(make, request, keep(request)) for request in requests],
        jobs,
        lambda _place, _made: advance(),
    )


def grouped(made: Sequence[Made]) -> dict[tuple[str, str], list[Made]]:
    """Runs by scenario and strategy, in the order of the requests."""
    groups: dict[tuple[str, str], list[Made]] = {}
    for one in made:
        groups.setdefault((one.scenario, one.label), []).append(one)
    return groups


def median(values: Sequence[float]) -> float:
    """The median. ∞ is larger than all; NaN are left out."""
    known = [value for value in values if not isnan(value)]
    return statistics.median(known) if known else nan
