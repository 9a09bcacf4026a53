"""Which runs are wished for: scenarios × strategies × seeds, each as plain values that another process can be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rebalancer.analysis.goal import goal_of
from rebalancer.settings.leaves import all_leaves
from rebalancer.settings.load import Settings, resolved
from rebalancer.settings.sources import Assignment, flattened, from_flags, parse
from rebalancer.simulation.run import Task
from rebalancer.simulation.scenarios import catalog
from rebalancer.simulation.scenarios.schema import Scenario
from strategies.engine import placement_of
from strategies.errors import SettingsError

#: Pulsar's shedders, each with the placement it was published and is run with.
ALL = ("threshold+least_resource_usage", "uniform+least_long_term_rate", "avg+avg", "overload+least_long_term_rate", "transfer")

#: Placements as people who know Pulsar write them.
SHORT = {"least_resource_usage": "LRUW", "least_resource_usage_extensible": "LRUW", "least_long_term_rate": "LLTMR"}


@dataclass(frozen=True, slots=True)
class Who:
    """A strategy as the command line writes it: `name`, `name/mode`, `name/mode+placement`; None = as the scenario says."""

    name: str
    mode: str | None = None
    placement: str | None = None

    @classmethod
    def read(cls, text: str) -> Who:
        """Raises SettingsError for nothing before / or +."""
        head, _, placement = text.partition("+")
        name, _, mode = head.partition("/")
        if not name:
            raise SettingsError([f"--strategy {text!r}: write name, name/mode or name/mode+placement, for example avg/parity"])
        return cls(name, mode or None, placement or None)


@dataclass(frozen=True, slots=True)
class Wish:
    """One run. `scenario`: a name or a path; `who` None = the scenario's own strategy; `changes`: top-level keys of the scenario."""

    scenario: str
    seed: int
    who: Who | None = None
    mode: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()

    def task(self) -> Task:
        """What is to be run. Raises SettingsError with every complaint about scenario or settings."""
        named = catalog.load(self.scenario, self.changes)
        settings = self.settings(named.scenario)
        goal = goal_of(settings.engine)
        shown = {entry.leaf.path: entry.value for entry in settings.entries if entry.kind != "default"}
        return Task(named, self.seed, settings.engine, goal.reached, label(settings), goal.text, shown)

    def settings(self, scenario: Scenario) -> Settings:
        """The scenario's settings, then those of the strategy, then those of the command line. Raises SettingsError."""
        leaves = all_leaves()
        by_path = {leaf.path: leaf for leaf in leaves}
        place = f"[settings] of {self.scenario}"
        own = [
            Assignment(path, parse(value, by_path.get(path)) if isinstance(value, str) else value, "file", place)
            for path, value in flattened(scenario.settings)
        ]
        given, wrong = from_flags(self.overrides, leaves)
        return resolved([*own, *self._strategy(scenario), *given], wrong)

    def _strategy(self, scenario: Scenario) -> list[Assignment]:
        """What the command line does not say stands in the scenario."""
        own, who = scenario.strategy, self.who or Who(scenario.strategy.name)
        kept = own.placement if who.name == own.name else "auto"
        said = (
            ("shedding.strategy", (self.who and who.name, "--strategy"), own.name),
            ("shedding.mode", (who.mode, "--strategy") if who.mode else (self.mode, "--mode"), own.mode),
            ("placement.strategy", (who.placement, "--strategy"), kept),
        )
        place = f"[strategy] of {self.scenario}"
        return [
            Assignment(path, value, "flag", flag) if value else Assignment(path, default, "file", place)
            for path, (value, flag), default in said
        ]


def wishes(
    scenarios: Sequence[str],
    strategies: Sequence[str],
    seeds: Sequence[int],
    *,
    mode: str | None = None,
    changes: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
) -> list[Wish]:
    """All runs, seed by seed within a strategy within a scenario. `all` among the strategies stands for Pulsar's five."""
    asked = [name for one in strategies for name in (ALL if one == "all" else (one,))]
    everybody: list[Who | None] = [Who.read(text) for text in dict.fromkeys(asked)] or [None]
    return [
        Wish(scenario, seed, who, mode, changes or {}, tuple(overrides)) for scenario in scenarios for who in everybody for seed in seeds
    ]


def checked(wished: Sequence[Wish]) -> None:
    """Raises SettingsError with the complaints about all of them."""
    complaints: dict[str, None] = {}
    for wish in wished:
        try:
            wish.task()
        except SettingsError as error:
            complaints |= dict.fromkeys(error.complaints)
    if complaints:
        raise SettingsError(list(complaints))


def label(settings: Settings) -> str:
    """`threshold/parity+LRUW`"""
    engine = settings.engine
    placement = placement_of(engine)[0]
    return f"{engine.strategy}/{engine.mode}+{SHORT.get(placement, placement)}"
