"""The settings that `tune` varies: those of each strategy that decide when it acts and how much it
moves.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import product
from math import prod

from strategies.shedding.contract import SheddingStrategy


def trials(strategy: SheddingStrategy, count: int, seed: int) -> list[tuple[str, ...]]:
    """At most `count` different sets of `path=value`, drawn uniformly; equal seeds draw equal
    sets.
    """
    every = product(
        *(
            [f"shedding.{strategy.name}.{key}={value}" for value in values]
            for key, values in strategy.tuning.items()
        )
    )
    return sorted(
        every,
        key=lambda one: blake2b("\x1f".join((str(seed), *one)).encode(), digest_size=8).digest(),
    )[:count]


def size(strategy: SheddingStrategy) -> int:
    """Number of possible sets."""
    return prod(len(values) for values in strategy.tuning.values())
