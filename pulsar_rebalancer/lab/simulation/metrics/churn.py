"""Churn of a run: traffic moved, repeated moves of a bundle, moves per hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, nan

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Move
from strategies.ordered_sum import ordered_sum

_HOUR_MS = 3_600_000
#: A bundle that moved should stay for this time, whatever the strategy's own settings say.
REST_MS = _HOUR_MS


def traffic_moved(moves: Sequence[Move]) -> float:
    """Sum of the bytes/s in + out that changed brokers; NaN if the traffic of no move is known."""
    known = [move.traffic for move in moves if not isnan(move.traffic)]
    return float(ordered_sum(known)) if known or not moves else nan


def moved_twice(moves: Sequence[Move]) -> int:
    """Number of bundles that moved more than once."""
    return sum(len(path) > 1 for path in _paths(moves))


def back_and_forth(moves: Sequence[Move]) -> int:
    """Number of moves that returned a bundle to the broker that its previous move took it from."""
    pairs = (pair for path in _paths(moves) for pair in pairwise(path))
    return sum(two.destination is not None and two.destination == one.source for one, two in pairs)


def returns(moves: Sequence[Move]) -> int:
    """Number of moves that brought a bundle back to a broker that it had left within the rest
    time.
    """
    left, back = dict[tuple[str, str | None], int](), 0
    for move in moves:
        left_at = left.get((move.bundle, move.destination))
        back += left_at is not None and move.ts - left_at < REST_MS
        left[move.bundle, move.source] = move.ts
    return back


def most_in_an_hour(moves: Sequence[Move]) -> int:
    """Maximum number of moves within one hour."""
    times = np.array(sorted(move.ts for move in moves), dtype=np.int64)
    if not len(times):
        return 0
    return int(
        (np.searchsorted(times, times + _HOUR_MS, side="left") - np.arange(len(times))).max()
    )


def _paths(moves: Sequence[Move]) -> list[list[Move]]:
    """The moves of each bundle, in order of decision."""
    paths: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        paths[move.bundle].append(move)
    return list(paths.values())
