"""The picture of a round in words: who is above the rest, who is lowest, what would move."""

from __future__ import annotations

from itertools import pairwise

from strategies.cluster.model import Round
from strategies.figures.describe import (
    changes,
    counted,
    counted_with,
    expected_spread,
    reported_spread,
    reported_usage,
)

#: Brokers above the rest that are named; the others are counted.
_NAMED = 3


def picture_of(done: Round) -> str:
    """`3 of 12 brokers above the rest: b1 82 %, b2 79 %, b3 78 %; lowest b9 31 %; 4 commands;
    spread 51 → 12 points`
    """
    ranked = sorted(reported_usage(done).items(), key=lambda one: (-one[1], one[0]))
    if not ranked:
        return f"{counted(len(done.stale), 'broker')} without fresh figures; none with usage"
    commands = [counted(len(done.commands), "command")] if done.commands else []
    return "; ".join([_heights(ranked), *commands, _spread(done)])


def _heights(ranked: list[tuple[str, float]]) -> str:
    if len(ranked) == 1:
        return f"1 broker: {_named(*ranked[0])}"
    above = _above(ranked)
    named = ", ".join(_named(*one) for one in above[:_NAMED])
    more = f" and {len(above) - _NAMED} more" if len(above) > _NAMED else ""
    lowest = _named(*ranked[-1])
    if not above:
        return f"highest of {len(ranked)} brokers {_named(*ranked[0])}; lowest {lowest}"
    return (
        f"{len(above)} of {counted(len(ranked), 'broker')} above the rest: {named}{more}; "
        f"lowest {lowest}"
    )


def _above(ranked: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The brokers above the widest gap between two neighbours; empty if they are the majority or
    there is no gap.
    """
    gaps = [higher[1] - lower[1] for higher, lower in pairwise(ranked)]
    place = max(range(len(gaps)), key=lambda at: gaps[at])
    many = 2 * (place + 1) > len(ranked)
    return [] if many or _percent(ranked[0][1]) == _percent(ranked[-1][1]) else ranked[: place + 1]


def _named(broker: str, usage: float) -> str:
    return f"{broker} {_percent(usage)} %"


def _spread(done: Round) -> str:
    now, after = _percent(reported_spread(done)), _percent(expected_spread(done))
    if not changes(done):
        return f"spread {now} points"
    return f"spread {now} → {after} points{counted_with(done.counted)}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f}"
