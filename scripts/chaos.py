"""The long chaos: `python -m scripts.chaos [ROUNDS [SEEDS [STRATEGY…]]]`, 1,000 rounds and 20 seeds of every strategy if unsaid.

Prints quantiles of imbalance and moves per strategy; exit code 1 and a line with seed, round and settings for every invariant that broke.
"""

from __future__ import annotations

import sys

import numpy as np

from simulation.chaos import chaos
from strategies.engine import EngineSettings
from strategies.limits.settings import LimitSettings
from strategies.shedding.registry import SHEDDERS

LIMITS = LimitSettings(moves_per_round=20, moves_per_hour=200)


def main(rounds: int = 1000, seeds: int = 20, *strategies: str) -> int:
    """How many invariants broke, at most 1."""
    broken: list[str] = []
    for strategy in strategies or tuple(SHEDDERS):
        runs = [chaos(seed, EngineSettings(strategy=strategy, limits=LIMITS), rounds) for seed in range(1, seeds + 1)]
        imbalance = np.percentile([value for run in runs for value in run.imbalance], [50, 95, 99])
        moves = np.percentile([run.moves for run in runs], [0, 50, 100])
        print(
            f"{strategy}: imbalance (max − mean) ÷ mean p50 {imbalance[0]:.1%}, p95 {imbalance[1]:.1%}, p99 {imbalance[2]:.1%}; "
            f"moves in {rounds} rounds {moves[0]:.0f} / {moves[1]:.0f} / {moves[2]:.0f} (least, median, most)",
            flush=True,
        )
        broken += [sentence for run in runs for sentence in run.broken]
    print("\n".join(broken) or f"every invariant held in {seeds} seeds of each")
    return 1 if broken else 0


if __name__ == "__main__":
    ROUNDS, SEEDS = (int(given) for given in (*sys.argv[1:3], *("1000", "20")[len(sys.argv[1:3]) :]))
    sys.exit(main(ROUNDS, SEEDS, *sys.argv[3:]))
