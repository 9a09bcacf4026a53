"""`python -m benchmarks.targets`: SteadyShedder beside Pulsar's shedders in simulated experiments,
and whether it meets its targets.

Runs the scenarios of `rebalancer simulate` with the default settings of SteadyShedder, on seeds
that its constants were not chosen on, and Pulsar's shedders in both modes on the same seeds. Exits
with 1 if a target is missed. `--sweep` changes each internal constant alone by ±30 % instead;
`--robust` compares disturbed runs with undisturbed ones.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from statistics import median

import numpy as np

from benchmarks.disturbed_runs import ROBUST, disturbed, robust_rows
from benchmarks.figures import table
from benchmarks.options import number, options, seeds
from benchmarks.random_generations import LENGTH
from benchmarks.simulated_runs import counted_runs, uncertified_run
from benchmarks.steady_constants import CONSTANTS, Change, changed
from benchmarks.target_table import SCENARIOS, TARGETS
from pulsar_rebalancer.lab.requested_runs import RunRequest, StrategyChoice
from pulsar_rebalancer.lab.simulation.scenario_loop import SimulatedRun
from strategies.ordered_sum import ordered_sum
from strategies.shedding.registry import SHEDDERS

OURS = "steady/fixed"
#: Pulsar's shedders, each with the placement that its published figures come from.
OTHERS = tuple(
    f"{one.name}/{mode}" + (f"+{one.published_placement}" if one.published_placement else "")
    for one in SHEDDERS.values()
    if one.name != "steady"
    for mode in ("fixed", "parity")
)
#: Cards in which no published strategy may have both a smaller spread and less churn.
COMPARED = ("e1", "e3", "e4", "e7", "e9")
#: Cards, and the least share of seeds inside the targets of a card, for every changed constant.
SWEPT, SHARE = ("e2", "e6", "e7", "e9"), 0.9
#: Cards in which nothing should move.
CALM = ("e2", "e6")
#: Minutes of a calm card in the sweep, which changes only constants of evidence in them: a day for
#: all constants would take hours.
_CALM_MINUTES = 360
#: Mean usage from which on no plan can even out a generation of the random scenario.
_FEASIBLE = 0.95
_SHOWN = {
    "first": "rounds_to_first_command",
    "balanced": "rounds_to_balance",
    "rounds": "operations",
    "moves": "bundles_moved",
    "churn": "churn_ratio",
    "spread": "lasting_spread",
    "above best": "residual_gap",
    "ratio": "usage_ratio_end",
    "peak %": "peak_change",
    "back": "back_and_forth",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a card. `change`: of a constant, if any; `minutes`: if not the card's."""

    card: str
    bundles: int
    seed: int
    strategy: str = OURS
    change: Change | None = None
    minutes: int | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the figures of all cards and the verdicts; returns the exit code."""
    parser = options("benchmarks.targets", __doc__ or "")
    parser.add_argument("--cards", nargs="+", default=list(SCENARIOS), choices=list(SCENARIOS))
    seeds(parser, "21-40")
    parser.add_argument("--bundles", nargs="+", type=int, default=[16, 64], metavar="N")
    parser.add_argument("--alone", action="store_true", help="without Pulsar's shedders")
    parser.add_argument("--sweep", action="store_true", help="change each constant by ±30 %%")
    parser.add_argument("--robust", action="store_true", help="disturb the clusters")
    number(parser, "--jobs", os.cpu_count() or 1, "processes")
    chosen = parser.parse_args(arguments)
    if chosen.sweep:
        cards = [card for card in chosen.cards if card in SWEPT]
        rows = swept(cards, chosen.bundles, chosen.seeds, chosen.jobs)
    elif chosen.robust:
        cards = [card for card in chosen.cards if card in ROBUST]
        rows = robust_rows(disturbed(cards, chosen.bundles, chosen.seeds, chosen.jobs))
    else:
        found = measured(
            chosen.cards, chosen.bundles, chosen.seeds, chosen.jobs, alone=chosen.alone
        )
        rows = [*verdicts(found), *dominated(found)]
        if not chosen.json:
            print(table("Median / 90th percentile over the seeds", list(shown(found))), end="\n\n")
    missed = sum(row["held"] == "no" for row in rows)
    print(json.dumps({"v": 1, "rows": rows}, indent=2) if chosen.json else table("Targets", rows))
    return 1 if missed else 0


#: Card, bundles and strategy → the figures of all seeds.
Found = Mapping[tuple[str, int, str], Sequence[Mapping[str, float]]]


def measured(
    cards: Sequence[str], bundles: Sequence[int], seeds: Sequence[int], jobs: int, *, alone: bool
) -> Found:
    """Runs all cards."""
    cases = [
        Case(card, count, seed, strategy)
        for card in cards
        for count in SCENARIOS[card].bundle_counts(bundles)
        for strategy in (OURS, *(() if alone or card not in COMPARED else OTHERS))
        for seed in seeds[: SCENARIOS[card].seeds]
    ]
    found: dict[tuple[str, int, str], list[Mapping[str, float]]] = {}
    for case, figures in zip(cases, _run_all(cases, jobs), strict=True):
        found.setdefault((case.card, case.bundles, case.strategy), []).append(figures)
    return found


def verdicts(found: Found) -> list[dict[str, object]]:
    """A row per target and number of bundles."""
    rows = []
    for (card, bundles, strategy), runs in found.items():
        if strategy == OURS:
            for target in TARGETS[card]:
                value = target.value([one[target.figure] for one in runs])
                rows.append(
                    {
                        "card": card,
                        "target": target.text,
                        "bundles": bundles,
                        "seeds": len(runs),
                        "measured": f"{value:.2f}",
                        "held": "yes" if target.holds(value) else "no",
                    }
                )
    return rows


def dominated(found: Found) -> list[dict[str, object]]:
    """A row per compared card: whether some strategy has a smaller spread and less churn."""
    rows = []
    for (card, bundles, strategy), runs in found.items():
        rivals = [
            (name, other)
            for (where, count, name), other in found.items()
            if (where, count) == (card, bundles) and name != strategy
        ]
        if strategy == OURS and rivals:
            better = [
                name
                for name, other in rivals
                if all(
                    _median(other, figure) < _median(runs, figure)
                    for figure in ("lasting_spread", "churn_ratio")
                )
            ]
            rows.append(
                {
                    "card": card,
                    "target": "no strategy has both a smaller spread and less churn",
                    "bundles": bundles,
                    "seeds": len(runs),
                    "measured": ", ".join(better) or "none",
                    "held": "no" if better else "yes",
                }
            )
    return rows


def shown(found: Found) -> Iterator[dict[str, object]]:
    """A row per card, number of bundles and strategy, with medians and 90th percentiles."""
    for (card, bundles, strategy), runs in found.items():
        row: dict[str, object] = {"card": card, "strategy": strategy, "bundles": bundles}
        for title, figure in _SHOWN.items():
            values = [one[figure] for one in runs]
            row[title] = f"{_short(median(values))}/{_short(_percentile(values, 90))}"
        yield row


def swept(
    cards: Sequence[str], bundles: Sequence[int], seeds: Sequence[int], jobs: int
) -> list[dict[str, object]]:
    """A row per constant and direction: per card, the share of seeds that meet all its targets,
    and the targets (of the median, or of a share of the seeds) that are missed and hold with the
    usual value.
    """
    cases = [
        Case(card, count, seed, change=change, minutes=_CALM_MINUTES if card in CALM else None)
        for card in cards
        for count in SCENARIOS[card].bundle_counts(bundles)
        for change in (None, *CONSTANTS)
        if card not in CALM or change is None or change.is_evidence
        for seed in seeds
    ]
    found: dict[Change | None, dict[str, dict[int, list[Mapping[str, float]]]]] = {}
    for case, answer in zip(cases, _run_all(cases, jobs), strict=True):
        by_card = found.setdefault(case.change, {})
        by_card.setdefault(case.card, {}).setdefault(case.bundles, []).append(answer)
    usual = {card: _missed(card, runs) for card, runs in found[None].items()}
    rows: list[dict[str, object]] = []
    for change, by_card in found.items():
        shares = {card: _share(card, runs) for card, runs in by_card.items()}
        missed = [
            text for card, runs in by_card.items() for text in _missed(card, runs) - usual[card]
        ]
        rows.append(
            {
                "constant": "none" if change is None else change.name,
                "value": "" if change is None else f"{change.value:g}",
                **{
                    card: f"{100 * shares[card]:.0f} %" if card in shares else "–" for card in cards
                },
                "missed": "; ".join(sorted(missed)),
                "held": "yes" if all(one >= SHARE for one in shares.values()) else "no",
            }
        )
    return rows


def _share(card: str, runs: Mapping[int, Sequence[Mapping[str, float]]]) -> float:
    """The part of the runs of a card that meet all its targets."""
    fine = [
        all(target.holds(one[target.figure]) for target in TARGETS[card])
        for some in runs.values()
        for one in some
    ]
    return ordered_sum(fine) / len(fine)


def _missed(card: str, runs: Mapping[int, Sequence[Mapping[str, float]]]) -> set[str]:
    """The targets of a card that the runs miss."""
    return {
        f"{card}, {count} bundles: {target.text}"
        for count, some in runs.items()
        for target in TARGETS[card]
        if not target.holds(target.value([one[target.figure] for one in some]))
    }


def _request(case: Case) -> RunRequest:
    scenario = SCENARIOS[case.card]
    minutes = {} if case.minutes is None else {"minutes": case.minutes}
    return RunRequest(
        scenario.name,
        case.seed,
        StrategyChoice.read(case.strategy),
        changes={**scenario.changes(case.bundles, case.seed), **minutes},
        overrides=scenario.settings if case.strategy == OURS else (),
    )


def figures(case: Case) -> dict[str, float]:
    """The figures of one run, and those that only targets use."""
    with changed(case.change):
        done = uncertified_run(_request(case))
    return {**done.figures, **_more(done)}


def _more(done: SimulatedRun) -> dict[str, float]:
    line, onset = done.timeline, int(done.scenario.from_minute)
    lasting, spread = line.lasting, 100 * line.spread("lasting")
    moves = [move for move in line.moved() if move.round >= onset]
    moved = [move.bundle for move in moves]
    peaks = 100 * np.nanmax(lasting, axis=1)
    later = min(moves[0].round + 4, len(peaks) - 1) if moves else -1
    ends = lasting[LENGTH - 1 :: LENGTH]
    mean = np.nanmean(ends, axis=1)
    uneven = (np.nanmax(ends, axis=1) / mean - 1)[mean < _FEASIBLE]
    return {
        "peak_change": 100 * float(peaks[-1] / peaks[onset] - 1),
        "peak_rise": float(peaks[onset:].max() - peaks[onset]),
        "peak_above": float(peaks[later] - 100 * np.nanmean(lasting[later])),
        "p95_spread": float(np.percentile(spread[onset:], 95)),
        "moved_once": 100 * len(set(moved)) / len(moved) if moved else 100.0,
        **{
            f"p{part}_imbalance": 100 * float(np.percentile(uneven, part))
            for part in (50, 95, 99)
            if len(uneven)
        },
    }


def _run_all(cases: Sequence[Case], jobs: int) -> list[dict[str, float]]:
    return counted_runs([partial(figures, case) for case in cases], jobs)


def _median(runs: Sequence[Mapping[str, float]], figure: str) -> float:
    return median(one[figure] for one in runs)


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part / 100 * len(values)))]


def _short(value: float) -> str:
    return ("never" if value == inf else "?") if not isfinite(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
