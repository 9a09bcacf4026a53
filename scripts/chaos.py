"""The long chaos test: `python -m scripts.chaos`; by default 1,000 rounds and 20 seeds of every
strategy (see `--help`).

Prints quantiles of imbalance and churn per strategy. For every broken invariant: a line with seed,
round and event, and the command that repeats this run; exit code 1.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np

from scripts.chaos_rounds import Chaos, chaos
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings
from strategies.shedding.registry import SHEDDERS

_SHOWN = 3


def main(arguments: Sequence[str]) -> int:
    """Runs the chaos test. Returns 1 if an invariant was broken, otherwise 0."""
    options = _parsed(arguments)
    limits = _limits(options)
    broken: list[str] = []
    disturbed: Counter[str] = Counter()
    reports = 0
    for strategy in options.strategies or tuple(SHEDDERS):
        settings = EngineSettings(strategy=strategy, mode=options.mode, limits=limits)
        runs = [
            chaos(
                seed,
                settings,
                options.rounds,
                promised=_promised(options, limits),
                harsh=options.harsh,
            )
            for seed in range(options.first_seed, options.first_seed + options.seeds)
        ]
        print(_line(strategy, runs), flush=True)
        for seed, run in enumerate(runs, options.first_seed):
            disturbed.update(run.disturbed)
            reports += run.reports
            broken += _breaches(run, _repeat_command(options, strategy, seed))
    print(
        "disturbances: "
        + ", ".join(f"{what} {count:,}" for what, count in sorted(disturbed.items()))
    )
    held = (
        f"all invariants held in {options.seeds} × {options.rounds} rounds of each strategy; "
        f"{reports:,} reports were accepted or rejected"
    )
    print("\n".join(broken) or held)
    return 1 if broken else 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.chaos", description="Random rounds with disturbances of every kind."
    )
    named = f"{', '.join(SHEDDERS)}; default: all"
    parser.add_argument(
        "strategies", nargs="*", choices=[*SHEDDERS, []], metavar="STRATEGY", help=named
    )
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--mode", choices=("fixed", "parity"), default="fixed")
    parser.add_argument("--moves-per-round", type=int, default=6)
    parser.add_argument("--moves-per-hour", type=int, default=40)
    parser.add_argument("--mib-per-round", type=float, default=120.0)
    parser.add_argument("--mib-per-hour", type=float, default=600.0)
    parser.add_argument(
        "--promised-per-hour", type=int, help="check against this limit instead, to see a violation"
    )
    parser.add_argument(
        "--harsh",
        action="store_true",
        help="a wrong clock, refused and misplaced commands, and splits as well",
    )
    return parser.parse_args(arguments)


def _limits(options: argparse.Namespace) -> LimitSettings:
    return LimitSettings(
        moves_per_round=options.moves_per_round,
        moves_per_hour=options.moves_per_hour,
        moved_mib_per_round=options.mib_per_round,
        moved_mib_per_hour=options.mib_per_hour,
    )


def _promised(options: argparse.Namespace, limits: LimitSettings) -> LimitSettings:
    return (
        limits
        if options.promised_per_hour is None
        else LimitSettings(moves_per_hour=options.promised_per_hour)
    )


def _line(strategy: str, runs: Sequence[Chaos]) -> str:
    imbalance = np.percentile([value for run in runs for value in run.imbalance], [50, 95, 99])
    moves = np.percentile([run.moves for run in runs], [0, 50, 100])
    churn = np.percentile([run.churn for run in runs], [50, 95])
    return (
        f"{strategy}: imbalance (max − mean) ÷ mean p50 {imbalance[0]:.1%}, p95 "
        f"{imbalance[1]:.1%}, p99 {imbalance[2]:.1%}; "
        f"churn, part of all traffic moved in an hour, p50 {churn[0]:.1%}, p95 {churn[1]:.1%}; "
        f"moves {moves[0]:.0f} / {moves[1]:.0f} / {moves[2]:.0f} (least, median, most)"
    )


def _breaches(run: Chaos, repeat: str) -> list[str]:
    """The first violations, the number of further ones, and the command that repeats the run."""
    if not run.broken:
        return []
    more = len(run.broken) - _SHOWN
    return [
        *run.broken[:_SHOWN],
        *([f"  and {more} more"] if more > 0 else []),
        f"  repeat: {repeat}",
    ]


def _repeat_command(options: argparse.Namespace, strategy: str, seed: int) -> str:
    """The command that repeats one run, with all settings that it depends on."""
    parts = [
        f"python -m scripts.chaos {strategy} --rounds {options.rounds} --seeds 1 --first-seed "
        f"{seed} --mode {options.mode}",
        f"--moves-per-round {options.moves_per_round} --moves-per-hour {options.moves_per_hour}",
        f"--mib-per-round {options.mib_per_round:g} --mib-per-hour {options.mib_per_hour:g}",
    ]
    return " ".join(
        [
            *parts,
            *(
                []
                if options.promised_per_hour is None
                else [f"--promised-per-hour {options.promised_per_hour}"]
            ),
            *(["--harsh"] if options.harsh else []),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
