"""Keeps a round's record small: its size follows from brokers and commands, whatever bundles, names and reasons there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from strategies.model import Skip

#: Bundles left alone that a round names: so many, and more for every broker. The others are counted.
_NAMED, _NAMED_PER_BROKER = 1_000, 20
#: Characters of one sentence; names of brokers and bundles have at most 512.
_LONGEST_TEXT = 2_000


def bounded(skips: Iterable[Skip], cluster: str, brokers: int) -> tuple[Skip, ...]:
    """The skips in their order, with no more names of bundles than a round of this many brokers may hold.

    A skip that lost names says how many in its evidence (`unnamed`); skips that lost all are counted by code in a last one.
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
