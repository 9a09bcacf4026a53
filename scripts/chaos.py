"""The long chaos: `python -m scripts.chaos`, 1,000 rounds and 20 seeds of every strategy if unsaid (`--help` says what else).

Prints quantiles of imbalance and churn per strategy. For every promise that broke: a line with seed, round and what happened, and the
command that repeats this one run; exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rebalancer.simulation.chaos import Chaos, chaos
from strategies.engine import EngineSettings
from strategies.limits.settings import LimitSettings
from strategies.shedding.registry import SHEDDERS

_TOLD = 3


def main(arguments: Sequence[str]) -> int:
    """1 if a promise broke."""
    told = _told(arguments)
    limits = _limits(told)
    broken: list[str] = []
    disturbed: Counter[str] = Counter()
    reports = 0
    for strategy in told.strategies or tuple(SHEDDERS):
        settings = EngineSettings(strategy=strategy, mode=told.mode, limits=limits)
        runs = [
            chaos(seed, settings, told.rounds, promised=_promised(told, limits))
            for seed in range(told.first_seed, told.first_seed + told.seeds)
        ]
        print(_line(strategy, runs), flush=True)
        for seed, run in enumerate(runs, told.first_seed):
            disturbed.update(run.disturbed)
            reports += run.reports
            broken += _breaches(run, _again(told, strategy, seed))
    print("went wrong: " + ", ".join(f"{what} {count:,}" for what, count in sorted(disturbed.items())))
    held = f"every promise held in {told.seeds} × {told.rounds} rounds of each; all of {reports:,} reports were taken or rejected"
    print("\n".join(broken) or held)
    return 1 if broken else 0


def _told(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.chaos", description="Random rounds in which everything goes wrong.")
    named = f"{', '.join(SHEDDERS)}; all unless named"
    parser.add_argument("strategies", nargs="*", choices=[*SHEDDERS, []], metavar="STRATEGY", help=named)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--mode", choices=("fixed", "parity"), default="fixed")
    parser.add_argument("--moves-per-round", type=int, default=6)
    parser.add_argument("--moves-per-hour", type=int, default=40)
    parser.add_argument("--mib-per-round", type=float, default=120.0)
    parser.add_argument("--mib-per-hour", type=float, default=600.0)
    parser.add_argument("--promised-per-hour", type=int, help="judge by this many moves an hour instead: to see how a breach is told")
    return parser.parse_args(arguments)


def _limits(told: argparse.Namespace) -> LimitSettings:
    return LimitSettings(
        moves_per_round=told.moves_per_round,
        moves_per_hour=told.moves_per_hour,
        moved_mib_per_round=told.mib_per_round,
        moved_mib_per_hour=told.mib_per_hour,
    )


def _promised(told: argparse.Namespace, limits: LimitSettings) -> LimitSettings:
    return limits if told.promised_per_hour is None else LimitSettings(moves_per_hour=told.promised_per_hour)


def _line(strategy: str, runs: Sequence[Chaos]) -> str:
    imbalance = np.percentile([value for run in runs for value in run.imbalance], [50, 95, 99])
    moves = np.percentile([run.moves for run in runs], [0, 50, 100])
    churn = np.percentile([run.churn for run in runs], [50, 95])
    return (
        f"{strategy}: imbalance (max − mean) ÷ mean p50 {imbalance[0]:.1%}, p95 {imbalance[1]:.1%}, p99 {imbalance[2]:.1%}; "
        f"churn, part of all traffic moved in an hour, p50 {churn[0]:.1%}, p95 {churn[1]:.1%}; "
        f"moves {moves[0]:.0f} / {moves[1]:.0f} / {moves[2]:.0f} (least, median, most)"
    )


def _breaches(run: Chaos, again: str) -> list[str]:
    """The first few, how many more there are, and how to see them again."""
    if not run.broken:
        return []
    more = len(run.broken) - _TOLD
    return [*run.broken[:_TOLD], *([f"  and {more} more"] if more > 0 else []), f"  again: {again}"]


def _again(told: argparse.Namespace, strategy: str, seed: int) -> str:
    """The command that makes one run again, with every setting it depends on."""
    parts = [
        f"python -m scripts.chaos {strategy} --rounds {told.rounds} --seeds 1 --first-seed {seed} --mode {told.mode}",
        f"--moves-per-round {told.moves_per_round} --moves-per-hour {told.moves_per_hour}",
        f"--mib-per-round {told.mib_per_round:g} --mib-per-hour {told.mib_per_hour:g}",
    ]
    return " ".join([*parts, *([] if told.promised_per_hour is None else [f"--promised-per-hour {told.promised_per_hour}"])])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
