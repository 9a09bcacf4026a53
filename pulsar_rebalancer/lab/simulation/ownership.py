"""Owners of bundles over time, changed by moves, reconnecting clients, broker failures and
splits.
"""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints

NO_BROKER = -1
_EVER_S = -1e12


class Ownership:
    """Columns, one row per bundle: `owner`, `before` (previous owner), `down_s` (time it left that
    one), `up_s` (start of service).

    `order`: int64[bundles], the order in which brokers list their bundles: that of their assignment
    if given, otherwise by row.
    """

    def __init__(self, owner: Ints, order: Ints | None = None) -> None:
        self.owner = owner.copy()
        self._as_taken_over = order is not None
        self.order: Ints = np.arange(len(owner)) if order is None else order
        self.before = np.full(len(owner), NO_BROKER, dtype=np.int64)
        self.down_s = np.full(len(owner), _EVER_S)
        self.up_s = np.full(len(owner), _EVER_S)

    def move(self, row: int, destination: int, down_s: float, up_s: float) -> None:
        """Moves a bundle: it leaves its owner at `down_s`, and `destination` serves it from `up_s`
        on.
        """
        self.before[row], self.owner[row] = self.owner[row], destination
        self.down_s[row], self.up_s[row] = down_s, up_s
        if self._as_taken_over:
            self.order = np.append(self.order[self.order != row], row)

    def split(self, row: int) -> int:
        """Adds a bundle on the same broker; returns its row."""
        for name in ("owner", "before", "down_s", "up_s"):
            column = getattr(self, name)
            setattr(self, name, np.append(column, column[row]))
        self.order = np.append(self.order, len(self.order))
        return len(self.owner) - 1

    def presence(self, begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """float64[bundles] twice: the part of its window (float64[brokers]) in which the owner, and
        the previous owner, served a bundle.
        """
        owner, before = self.owner, self.before
        end, begin = end_s[owner], begin_s[owner]
        now = np.clip((end - self.up_s) / (end - begin), 0.0, 1.0)
        once = before != NO_BROKER
        earlier_end, earlier_begin = end_s[before], begin_s[before]
        was = np.where(
            once,
            np.clip((self.down_s - earlier_begin) / (earlier_end - earlier_begin), 0.0, 1.0),
            0.0,
        )
        return np.where(owner == NO_BROKER, 0.0, now), was

    def listed(self, end_s: Floats) -> Ints:
        """int64[bundles]: the broker whose report of that time (float64[brokers]) lists a bundle,
        or NO_BROKER.
        """
        mine = (self.owner != NO_BROKER) & (self.up_s <= end_s[self.owner])
        theirs = (self.before != NO_BROKER) & (self.down_s > end_s[self.before])
        return np.where(mine, self.owner, np.where(theirs, self.before, NO_BROKER))
