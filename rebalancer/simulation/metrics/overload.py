"""Duration and degree of overload of brokers, absolute and relative to an oracle."""

from __future__ import annotations

from math import inf

import numpy as np

from rebalancer.simulation.timeline import Timeline


def overload_minutes(timeline: Timeline, onset: int, limit: float) -> float:
    """Σ over brokers of (load − limit)⁺ × time, in full brokers × minutes."""
    above = np.maximum(np.nan_to_num(timeline.lasting[onset:]) - limit, 0.0)
    return float(above.sum()) * timeline.interval_ms / 60_000


def overload_ratio(timeline: Timeline, onset: int, limit: float) -> float:
    """Overload relative to an oracle that is balanced from the second round on; ∞ if the oracle has no overload."""
    area, usage = overload_minutes(timeline, onset, limit), timeline.lasting[onset:]
    first = float(np.maximum(np.nan_to_num(usage[0]) - limit, 0.0).sum())
    count = np.isfinite(usage).sum(axis=1)
    mean = np.nansum(usage, axis=1) / np.maximum(count, 1)
    even = float((np.maximum(mean[1:] - limit, 0.0) * count[1:]).sum())
    oracle = (first + even) * timeline.interval_ms / 60_000
    return area / oracle if oracle > 0 else (1.0 if area == 0 else inf)
