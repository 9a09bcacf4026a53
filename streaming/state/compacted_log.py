"""Stores many small values in few large entries: each micro-batch writes its changes as one entry,
and obsolete entries are deleted.

A call to Spark's state costs about as much as folding a report. So a micro-batch makes as few calls
as possible, however many brokers have changed. This module does not use Spark: it returns the
entries to write, and takes them as arguments after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
#: Obsolete items are kept until their number exceeds that of the newest items by this.
_SLACK = 64

LogEntry = Mapping[K, V | None]


class CompactedLog(Generic[K, V]):
    """Names and their newest values. An entry holds names and values; the value None means that the
    name is removed.
    """

    def __init__(
        self,
        weight: Callable[[V], int],
        entry_weight: int,
        new_entry: Callable[[], int],
        note: Callable[[K, V | None], object] = lambda _name, _value: None,
    ) -> None:
        """`weight`: weight of a value; an entry is full at `entry_weight`. `new_entry`: returns a
        number that no entry has ever had. `note`: called with every name and its newest value, as
        they change.
        """
        self._weight, self._entry_weight, self._new_entry = weight, entry_weight, new_entry
        self._on_change = note
        #: The newest value of every name that is not removed.
        self.values: dict[K, V] = {}
        #: Weight of all these values together.
        self.total_weight = 0
        # Entry → number of its items, and the names whose newest item it holds; both by age, oldest
        # first.
        self._items: dict[int, int] = {}
        self._newest: dict[int, dict[K, None]] = {}
        self._where: dict[K, int] = {}

    @property
    def entries(self) -> list[int]:
        """Numbers of the stored entries, oldest first."""
        return list(self._items)

    def follow(self, entries: Sequence[int], read: Callable[[int], LogEntry[K, V]]) -> bool:
        """Applies the entries that another log, once equal to this one, has written since;
        `entries`: its stored ones, oldest first.

        Reads unknown entries only. False if this log is not an earlier state of the other one; its
        content is then invalid.
        """
        kept = set(entries)
        known = [number for number in self._items if number in kept]
        if known != list(entries[: len(known)]):
            return False
        for number in entries[len(known) :]:
            self._take(number, read(number))
        for number in [number for number in self._items if number not in kept]:
            if self._newest[number]:
                return False
            self._drop(number)
        return True

    def _take(self, number: int, entry: LogEntry[K, V]) -> None:
        """Thousands of items in each micro-batch: a loop without calls of its own."""
        self._items[number] = len(entry)
        self._newest[number] = dict.fromkeys(entry)
        newest, where, values, weight = self._newest, self._where, self.values, self._weight
        for name, value in entry.items():
            earlier = where.get(name)
            if earlier is not None:
                newest[earlier].pop(name, None)
            where[name] = number
            replaced = values.get(name)
            if replaced is not None:
                self.total_weight -= weight(replaced)
            if value is not None:
                values[name] = value
                self.total_weight += weight(value)
            elif replaced is not None:
                del values[name]
            self._on_change(name, value)

    def write(self, changed: LogEntry[K, V]) -> tuple[dict[int, LogEntry[K, V]], list[int]]:
        """Applies changes; returns the entries to write, by number, and the numbers of the entries
        to delete.
        """
        before = list(self._items)
        fresh = self._append(
            {
                name: value
                for name, value in changed.items()
                if value is not None or name in self._where
            }
        )
        self._drop_superseded()
        fresh |= self._append(self._take_oldest())
        return {number: entry for number, entry in fresh.items() if number in self._items}, [
            number for number in before if number not in self._items
        ]

    def _append(self, items: LogEntry[K, V]) -> dict[int, LogEntry[K, V]]:
        fresh: dict[int, LogEntry[K, V]] = {self._new_entry(): entry for entry in self._cut(items)}
        for number, entry in fresh.items():
            self._take(number, entry)
        return fresh

    def _cut(self, items: LogEntry[K, V]) -> Iterator[dict[K, V | None]]:
        some: dict[K, V | None] = {}
        weight = 0
        for name, value in items.items():
            some[name] = value
            weight += 0 if value is None else self._weight(value)
            if weight >= self._entry_weight:
                yield some
                some, weight = {}, 0
        if some:
            yield some

    def _drop_superseded(self) -> None:
        for number in [number for number, names in self._newest.items() if not names]:
            self._drop(number)
        # The removal of a name must be kept as long as an older entry could restore the name.
        while self._items and self.values.keys().isdisjoint(self._newest[next(iter(self._items))]):
            self._drop(next(iter(self._items)))

    def _take_oldest(self) -> dict[K, V]:
        """Removes the oldest entries until few obsolete items remain; returns the current items of
        the removed entries.

        The caller writes these items again, on average at most once per item.
        """
        taken: dict[K, V] = {}
        stored = sum(self._items.values())
        while stored > 2 * len(self.values) + _SLACK:
            oldest = next(iter(self._items))
            alive = {
                name: self.values[name] for name in self._newest[oldest] if name in self.values
            }
            stored -= self._items[oldest] - len(alive)
            taken |= alive
            self._drop(oldest)
        return taken

    def _drop(self, number: int) -> None:
        for name in self._newest.pop(number):
            del self._where[name]
        del self._items[number]
