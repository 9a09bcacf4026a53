"""Words for counts, lists of names and ages, which all texts share."""

from collections.abc import Sequence

#: Milliseconds of the units of a duration.
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def counted_with(moves: int) -> str:
    """` with 2 earlier moves that reports do not show yet`: what an expected figure counts as done
    besides the commands of its own round; empty without such moves.
    """
    return f" with {counted(moves, 'earlier move')} that reports do not show yet" if moves else ""


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
