"""Which runs are wished for: scenarios × strategies × seeds, each as plain values that another process can be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.goal import goal_of
from cli.settings.load import Settings, load
from simulation.running import Task
from simulation.scenarios import shelf
from simulation.scenarios.form import Scenario
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
        named = shelf.load(self.scenario, self.changes)
        settings = self.settings(named.scenario)
        goal = goal_of(settings.engine)
        shown = {entry.leaf.path: entry.value for entry in settings.entries if entry.kind != "default"}
        return Task(named, self.seed, settings.engine, goal.reached, label(settings), goal.text, shown)

    def settings(self, scenario: Scenario) -> Settings:
        """The scenario's settings, then those of the strategy, then those of the command line."""
        told = [f"{path}={_written(value)}" for path, value in scenario.settings.items()]
        return load(flags=[*told, *self._strategy(scenario), *self.overrides])

    def _strategy(self, scenario: Scenario) -> list[str]:
        own = scenario.strategy
        who = self.who or Who(own.name, own.mode, own.placement)
        mode = who.mode or self.mode or own.mode
        placement = who.placement or ("auto" if who.name != own.name else own.placement)
        return [f"shedding.strategy={who.name}", f"shedding.mode={mode}", f"placement.strategy={placement}"]


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


def label(settings: Settings) -> str:
    """`threshold/parity+LRUW`"""
    engine = settings.engine
    placement = placement_of(engine)[0]
    return f"{engine.strategy}/{engine.mode}+{SHORT.get(placement, placement)}"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
