"""The sum of figures, the same with every interpreter. `sum()` corrects the rounding of floats
since Python 3.12: the same telemetry would give other commands than on 3.11.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import TypeVar

_Figure = TypeVar("_Figure", int, float)


def ordered_sum(figures: Iterable[_Figure]) -> _Figure:
    """Adds one after the other, as a loop in Java does; 0 without figures."""
    return reduce(add, figures, 0)
