"""Which settings are worth trying: of every strategy those that decide when it acts and how much it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import product
from math import prod

#: Strategy → last part of the setting's path → values, Pulsar's default among them.
SPACE: Mapping[str, Mapping[str, Sequence[float]]] = {
    "threshold": {
        "threshold_percent": (3, 5, 7.5, 10, 15, 20),
        "history": (0.0, 0.5, 0.7, 0.9, 0.95),
        "min_throughput_mib": (1, 10, 50),
    },
    "avg": {
        "low_threshold": (3, 5, 8, 10, 15, 20),
        "high_threshold": (20, 30, 40),
        "hit_count_low": (2, 4, 8),
        "hit_count_high": (1, 2),
        "max_unload": (0.2, 0.35, 0.5),
    },
    "overload": {"threshold_percent": (50, 60, 70, 75, 80, 85, 90)},
    "uniform": {
        "rate_difference_percent": (20, 30, 50, 80),
        "throughput_ratio": (1.2, 1.5, 2, 4),
        "max_unload": (0.1, 0.2, 0.35, 0.5),
    },
    "transfer": {"target_std": (0.03, 0.05, 0.1, 0.15, 0.25), "hit_count": (1, 2, 3, 5), "history": (0.0, 0.5, 0.75, 0.9)},
}


def trials(strategy: str, count: int, seed: int) -> list[tuple[str, ...]]:
    """At most `count` different sets of `path=value`, drawn without preference; the same seed draws the same ones.

    Raises KeyError for a strategy nobody knows.
    """
    names = list(SPACE[strategy])
    every = product(*(SPACE[strategy][name] for name in names))
    sets = [tuple(f"shedding.{strategy}.{name}={value}" for name, value in zip(names, values, strict=True)) for values in every]
    return sorted(sets, key=lambda one: blake2b("\x1f".join((str(seed), *one)).encode(), digest_size=8).digest())[:count]


def size(strategy: str) -> int:
    """How many sets there are."""
    return prod(len(values) for values in SPACE[strategy].values())
