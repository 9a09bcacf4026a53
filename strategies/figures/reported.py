"""What reports show, in a round whose usages count commanded moves as done before reports do, and
the spread that is expected after these and the commands of the round.
"""

from __future__ import annotations

from collections.abc import Mapping

from strategies.cluster.model import Round


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


def expected_spread(done: Round) -> float:
    """The one prediction of this spread that texts show: of the strategy's plan, which it estimates
    from several samples; without a plan, by the newest usages.
    """
    bounds = done.certificate
    if bounds is not None and (bounds.moved or done.counted):
        return bounds.spread
    return done.spread_after.range


def changes(done: Round) -> bool:
    """Whether anything is to change these usages: commands, or moves that reports do not show."""
    return bool(done.commands or done.counted)
