"""How long and how far brokers were overloaded, alone and against the best that was possible."""

from __future__ import annotations

from math import inf

import numpy as np

from rebalancer.simulation.timeline import Timeline


def overload_minutes(timeline: Timeline, onset: int, limit: float) -> float:
    """Σ over brokers of (load − limit)⁺ × time, in full brokers × minutes."""
    above = np.maximum(np.nan_to_num(timeline.lasting[onset:]) - limit, 0.0)
    return float(above.sum()) * timeline.interval_ms / 60_000


def overload_ratio(timeline: Timeline, onset: int, limit: float) -> float:
    """Against an oracle that has everything even from the second round on; ∞ where that one had no overload at all."""
    area, usage = overload_minutes(timeline, onset, limit), timeline.lasting[onset:]
    first = float(np.maximum(np.nan_to_num(usage[0]) - limit, 0.0).sum())
    count = np.isfinite(usage).sum(axis=1)
    mean = np.nansum(usage, axis=1) / np.maximum(count, 1)
    even = float((np.maximum(mean[1:] - limit, 0.0) * count[1:]).sum())
    oracle = (first + even) * timeline.interval_ms / 60_000
    return area / oracle if oracle > 0 else (1.0 if area == 0 else inf)
