"""What reports show, in a round whose usages count commanded moves as done before reports do."""

from __future__ import annotations

from collections.abc import Mapping

from strategies.model import Round


def reported_usage(done: Round) -> Mapping[str, float]:
    """Usage per broker (fraction), without moves that are only commanded."""
    return {**done.usage, **done.measured} if done.measured else done.usage


def reported_spread(done: Round) -> float:
    """Difference of the highest and the lowest of these usages (1.0 = 100 %), without brokers that
    are being drained.
    """
    if not done.measured:
        return done.spread.range
    usage = reported_usage(done)
    values = [usage[name] for name in done.balanced_usage]
    return max(values) - min(values) if values else 0.0
