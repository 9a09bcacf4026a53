"""Formats skips and intents as printable lines, which golden files and `explain` share. A round has
two spreads if its usages count moves as done before reports do: the reported and the expected one.
"""

from collections.abc import Mapping, Sequence

from strategies.cluster.intent_contract import IntentStatus
from strategies.cluster.model import Round, Skip

#: Number of names of a skip that are printed; the rest is counted.
_NAMES = 4
#: Milliseconds of the units of a duration.
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def counted_with(moves: int) -> str:
    """` with 2 earlier moves that reports do not show yet`: what an expected figure counts as done
    besides the commands of its own round; empty without such moves.
    """
    return f" with {counted(moves, 'earlier move')} that reports do not show yet" if moves else ""


def describe_skip(skip: Skip) -> str:
    """`left alone broker a:1, b:1 [below-threshold]: …`"""
    names = first_of(skip.names, _NAMES)
    on = f" on {skip.broker}" if skip.broker else ""
    return f"left alone {skip.subject} {names}{on} [{skip.code}]: {skip.text}"


def describe_intent(status: IntentStatus) -> str:
    """`drain of a:1 (Ann: new disks) is draining: 6 of 10 bundles are left, 4 on their way; about
    90 s left, give or take 30 s. Nothing to do: the next rounds go on.`
    """
    about = f" of {status.broker}" if status.broker is not None else ""
    left = ""
    if status.left_ms is not None and status.error_ms is not None:
        left = (
            f"; about {status.left_ms / 1000:.0f} s left, give or take "
            f"{status.error_ms / 1000:.0f} s"
        )
    return (
        f"{status.action}{about} ({status.by}: {status.reason}) is {status.state}: "
        f"{status.text}{left}. {status.advice}"
    )


def counted(number: int, noun: str) -> str:
    """`1 bundle`, `5,000 bundles`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """`a, b, c and 2 more`, with at most `most` names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def age(ms: int) -> str:
    """`12 s`, `3 min`, `2 h`, `5 d`; a time in the future counts as 0 s."""
    for unit, size in _UNITS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms) // 1000} s"


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
