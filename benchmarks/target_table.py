"""Targets of SteadyShedder, from published experiments, and the scenarios that they apply to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.random_generations import generations

_DAY = 1440


@dataclass(frozen=True, slots=True)
class Target:
    """A limit of a figure: of its median over the seeds or, with `share`, of the value that this
    part of the seeds keeps. `least`: the figure must be at least the limit, not at most.
    """

    text: str
    figure: str
    limit: float
    share: float | None = None
    least: bool = False

    def value(self, values: Sequence[float]) -> float:
        """The value that is compared with the limit."""
        if self.share is None:
            return median(values)
        ranked = sorted(values, reverse=self.least)
        return ranked[min(len(ranked) - 1, max(0, round(self.share * len(ranked)) - 1))]

    def holds(self, value: float) -> bool:
        """Whether a value keeps the limit."""
        return value >= self.limit if self.least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Card:
    """A scenario by name, with changes. `bundles` None: the numbers of the command line; `seeds`:
    at most this many of them, for long scenarios.
    """

    name: str
    minutes: int | None = None
    bundles: int | None = None
    seeds: int | None = None
    settings: tuple[str, ...] = ()
    drawn: bool = False

    def bundle_counts(self, chosen: Sequence[int]) -> Sequence[int]:
        """The numbers of bundles that the scenario runs with."""
        return chosen if self.bundles is None else [self.bundles]

    def changes(self, bundles: int, seed: int) -> Mapping[str, Any]:
        """The changed keys of the scenario."""
        changes: dict[str, Any] = {"bundles": bundles}
        if self.minutes is not None:
            changes["minutes"] = self.minutes
        return {**changes, **generations(seed)} if self.drawn else changes


SCENARIOS: Mapping[str, Card] = {
    "e1": Card("e1-uniform-heterogeneous"),
    "e2": Card("e2-uniform-jitter", _DAY),
    "e3": Card("e3-threshold-equal"),
    "e4": Card("e4-threshold-over-unloading"),
    "e5": Card("e5-avg-heterogeneous"),
    "e6": Card("e6-avg-jitter", _DAY),
    "e7": Card("e7-avg-equal"),
    "e9": Card("e9-avg-scale-up"),
    "e10": Card("e10-avg-month", bundles=128, seeds=4),
    "step": Card("real-step"),
    "messages": Card(str(Path(__file__).with_name("two-message-sizes.toml")), bundles=64),
    "hundred": Card("hundred-new-brokers", bundles=1600, seeds=4),
    "random": Card(
        str(Path(__file__).with_name("random-generations.toml")),
        bundles=128,
        settings=("shedding.steady.steadiness=tight", "round.cool_down_ms=60000"),
        drawn=True,
    ),
}
_QUIET = Target("no move in 24 h, in 95 % of seeds", "bundles_moved", 0, share=0.95)
TARGETS: Mapping[str, tuple[Target, ...]] = {
    "e1": (
        Target("at most 10 points of spread", "lasting_spread", 10),
        Target("peak 35 % lower", "peak_change", -35),
    ),
    "e2": (_QUIET,),
    "e3": (
        Target("balanced in at most 5 rounds", "rounds_to_balance", 5),
        Target("at most 6 points above the best spread", "residual_gap", 6),
    ),
    "e4": (
        Target("balanced in at most 6 rounds", "rounds_to_balance", 6),
        Target("at most 4 moves", "bundles_moved", 4),
        Target("no bundle returns", "back_and_forth", 0),
    ),
    "e5": (
        Target("at most 10 points of spread", "lasting_spread", 10),
        Target("peak 20 % lower", "peak_change", -20),
    ),
    "e6": (_QUIET,),
    "e7": (
        Target("first command in at most 3 rounds", "rounds_to_first_command", 3),
        Target("balanced in at most 4 rounds", "rounds_to_balance", 4),
        Target("usage ratio at most 1.2", "usage_ratio_end", 1.2),
        Target("at most 1.3 times the least traffic moved", "churn_ratio", 1.3),
        Target("no bundle returns", "back_and_forth", 0),
    ),
    "e9": (
        Target("first command in at most 2 rounds", "rounds_to_first_command", 2),
        Target("at most 10 points in at most 4 rounds", "rounds_to_balance", 4),
        Target("at most 1.15 times the least traffic moved", "churn_ratio", 1.15),
    ),
    "e10": (
        Target("at most one round with moves", "operations", 1),
        Target("95 % of rounds within 12 points", "p95_spread", 12),
    ),
    "step": (
        Target("first command in at most 4 rounds", "rounds_to_first_command", 4),
        Target("balanced in at most 4 rounds", "rounds_to_balance", 4),
    ),
    "messages": (
        Target("peak never a point higher, in 95 % of seeds", "peak_rise", 1, share=0.95),
        Target("peak at most 3 points above the mean, 4 rounds later", "peak_above", 3),
    ),
    "hundred": (
        Target("at most 5 rounds with moves", "operations", 5),
        Target("99 % of bundles moved once", "moved_once", 99, least=True),
    ),
    "random": (
        Target("half of generations within 2 % of the mean", "p50_imbalance", 2),
        Target("95 % of generations within 5 % of the mean", "p95_imbalance", 5),
        Target("99 % of generations within 10 % of the mean", "p99_imbalance", 10),
    ),
}
