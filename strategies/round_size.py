"""Limits the size of a round's record: it depends on brokers and commands only, not on bundles, names and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from strategies.model import Skip

#: Number of bundles left alone that a round names: a fixed number, plus some per broker. The others are counted.
_NAMED, _NAMED_PER_BROKER = 1_000, 20
#: Maximum characters of a sentence; names of brokers and bundles have at most 512.
_LONGEST_TEXT = 2_000


def bounded(skips: Iterable[Skip], cluster: str, brokers: int) -> tuple[Skip, ...]:
    """The skips in their order, with at most as many names of bundles as a round of this number of brokers may hold.

    The evidence of a shortened skip has the number of removed names (`unnamed`); a last skip counts those without any name left, by code.
    """
    left = _NAMED + _NAMED_PER_BROKER * brokers
    kept, counted = list[Skip](), Counter[str]()
    for skip in skips:
        short = skip if len(skip.text) <= _LONGEST_TEXT else replace(skip, text=f"{skip.text[:_LONGEST_TEXT]}…")
        if skip.subject != "bundle":
            kept.append(short)
            continue
        unnamed = len(skip.names) - left
        if left == 0:
            counted[skip.code] += len(skip.names)
        else:
            kept.append(short if unnamed <= 0 else replace(short, names=skip.names[:left], evidence={**skip.evidence, "unnamed": unnamed}))
        left = max(0, -unnamed)
    if counted:
        text = f"{counted.total():,} more bundles are left alone, too many to name them here; the evidence counts them by reason"
        kept.append(Skip("cluster", (cluster,), "more-left-alone", text, None, dict(sorted(counted.items()))))
    return tuple(kept)
