"""SteadyShedder in disturbed clusters: each scenario undisturbed, with each disturbance alone, and
with all of them, on the same seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, median

import numpy as np

from benchmarks.simulated_runs import counted_runs, uncertified_run
from benchmarks.target_table import SCENARIOS
from pulsar_rebalancer.lab.requested_runs import RunRequest, StrategyChoice
from pulsar_rebalancer.lab.simulation.scenario_loop import SimulatedRun
from strategies.ordered_sum import ordered_sum

QUIET, RIVAL, TOGETHER = "none", "rival moves 5 an hour", "all together"
_ALONE: Mapping[str, Mapping[str, float]] = {
    "10 % of reports lost": {"lost": 0.1},
    "10 % two rounds late": {"late": 0.1, "late_rounds": 2},
    "a clock 20 s off": {"clock_s": 20},
    "bundle figures ±30 %": {"bundle_noise": 0.3},
    "bundle costs ±35 %": {"bundle_cost": 0.35},
    RIVAL: {"rival_an_hour": 5},
}
DISTURBANCES: Mapping[str, Mapping[str, float]] = {
    QUIET: {},
    **_ALONE,
    TOGETHER: {key: value for one in _ALONE.values() for key, value in one.items()},
}
#: Minutes of the cards, None for those of the scenario.
ROBUST: Mapping[str, int | None] = {
    "e1": None,
    "e2": 360,
    "e3": None,
    "e4": None,
    "e6": 360,
    "e7": None,
    "e9": None,
}
#: Limits, as multiples of the undisturbed figures. Where the load is never lastingly uneven: the
#: part of the seeds without a move.
CHURN, SPREAD, CALM = 2.0, 1.5, 0.95


@dataclass(frozen=True, slots=True)
class DisturbedCase:
    """One run of a card."""

    card: str
    bundles: int
    disturbance: str
    seed: int


@dataclass(frozen=True, slots=True)
class DisturbedFigures:
    """Bytes/s that the strategy and the rival moved in MiB/s, the strategy's moves, and the lasting
    spread: over the second half of the run, its median and its mean (points).
    """

    moved: float
    rival: float
    moves: float
    spread: float
    mean_spread: float
    calm: bool


#: Card, bundles and disturbance → the figures of all seeds.
Found = Mapping[tuple[str, int, str], Sequence[DisturbedFigures]]


def disturbed(
    cards: Sequence[str], bundles: Sequence[int], seeds: Sequence[int], jobs: int
) -> Found:
    """Runs all cards under all disturbances."""
    cases = [
        DisturbedCase(card, count, name, seed)
        for card in cards
        for count in bundles
        for name in DISTURBANCES
        for seed in seeds
    ]
    found: dict[tuple[str, int, str], list[DisturbedFigures]] = {}
    answers = counted_runs([partial(disturbed_figures, case) for case in cases], jobs)
    for case, figures in zip(cases, answers, strict=True):
        found.setdefault((case.card, case.bundles, case.disturbance), []).append(figures)
    return found


def disturbed_figures(case: DisturbedCase) -> DisturbedFigures:
    """The figures of one run."""
    minutes = ROBUST[case.card]
    request = RunRequest(
        SCENARIOS[case.card].name,
        case.seed,
        StrategyChoice.read("steady/fixed"),
        changes={
            "bundles": case.bundles,
            "disturbances": DISTURBANCES[case.disturbance],
            **({} if minutes is None else {"minutes": minutes}),
        },
    )
    return _figures(uncertified_run(request))


def _figures(done: SimulatedRun) -> DisturbedFigures:
    line, onset = done.timeline, int(done.scenario.from_minute)
    spread = 100 * line.spread("lasting")[line.rounds // 2 :]
    rival = ordered_sum(
        one.traffic for one in line.moves if one.kind == "foreign" and one.round >= onset
    )
    return DisturbedFigures(
        moved=done.figures["moved_mib"],
        rival=rival / 2**20,
        moves=done.figures["bundles_moved"],
        spread=float(np.median(spread)),
        mean_spread=float(np.mean(spread)),
        calm=done.scenario.calm,
    )


def robust_rows(found: Found) -> list[dict[str, object]]:
    """A row per card, number of bundles and disturbance: medians over the seeds, their multiples of
    the undisturbed medians, and whether both limits hold.
    """
    rows = []
    for (card, bundles, name), runs in found.items():
        quiet = found[card, bundles, QUIET]
        rows.append(
            {
                "card": card,
                "bundles": bundles,
                "disturbance": name,
                "moves": f"{median(one.moves for one in runs):g}",
                "still": f"{100 * mean(one.moves == 0 for one in runs):.0f} %",
                "MiB/s": f"{median(one.moved for one in runs):.1f}",
                "rival's": f"{median(one.rival for one in runs):.1f}",
                "churn ×": _times(median_of(runs, "moved"), median_of(quiet, "moved")),
                "spread": f"{median_of(runs, 'spread'):.1f}",
                "mean": f"{median_of(runs, 'mean_spread'):.1f}",
                "spread ×": _times(median_of(runs, "spread"), median_of(quiet, "spread")),
                "churn": _word(_churn_held(runs, quiet)),
                "even": _word(
                    median_of(runs, "spread") <= SPREAD * median_of(quiet, "spread") + 1e-9
                ),
                "held": "",
            }
        )
        rows[-1]["held"] = _word(rows[-1]["churn"] == rows[-1]["even"] == "yes")
    return rows


def _churn_held(runs: Sequence[DisturbedFigures], quiet: Sequence[DisturbedFigures]) -> bool:
    """Whether the strategy moves at most twice what it moves undisturbed, and what the rival moves:
    to undo that costs as much. Calm scenarios without a rival: no move in nearly all seeds.
    """
    rival = median_of(runs, "rival")
    if runs[0].calm and not rival:
        return mean(one.moves == 0 for one in runs) >= CALM
    return median_of(runs, "moved") <= CHURN * median_of(quiet, "moved") + rival + 1e-9


def median_of(runs: Sequence[DisturbedFigures], figure: str) -> float:
    """The median of a figure over the seeds."""
    return float(median(getattr(one, figure) for one in runs))


def _times(value: float, quiet: float) -> str:
    return f"{value / quiet:.2f}" if quiet else "–"


def _word(held: bool) -> str:
    return "yes" if held else "no"
