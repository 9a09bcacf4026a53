"""Many small values kept in few large entries: what one micro-batch has changed is one entry, and entries with nothing new in them go.

A call to Spark's state costs about as much as folding a report does; so a micro-batch makes as few of them as it can, however many
brokers have changed. No Spark here: entries are handed out to be written, and handed in again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
#: Items of which newer ones exist may lie around until they are as many as the newest ones, and this many more.
_SLACK = 64

LogEntry = Mapping[str, V | None]


class CompactedLog(Generic[V]):
    """Names and their newest values. An entry holds names and values; a value of None says that the name is gone."""

    def __init__(self, weight: Callable[[V], int], entry_weight: int, new_entry: Callable[[], int]) -> None:
        """`weight` of a value; an entry is closed when its values weigh `entry_weight`. `new_entry`: a number that no entry ever had."""
        self._weight, self._entry_weight, self._new_entry = weight, entry_weight, new_entry
        self._values: dict[str, V] = {}
        # Entry → how many items lie in it, and the names whose newest item that is; both by age, oldest first.
        self._items: dict[int, int] = {}
        self._newest: dict[int, dict[str, None]] = {}
        self._where: dict[str, int] = {}

    @property
    def entries(self) -> list[int]:
        """Numbers of the entries that are kept, oldest first."""
        return list(self._items)

    @property
    def values(self) -> Mapping[str, V]:
        """The newest value of every name that is not gone."""
        return self._values

    def follow(self, entries: Sequence[int], read: Callable[[int], LogEntry[V]]) -> bool:
        """Takes in what another log, once equal to this one, has written since; `entries`: those that it keeps, oldest first.

        Whatever is not known is read. False when this log is not what the other one was earlier: nothing in it counts then.
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

    def _take(self, number: int, entry: LogEntry[V]) -> None:
        self._items[number] = len(entry)
        self._newest[number] = {}
        for name, value in entry.items():
            self._note(name, value, number)

    def write(self, changed: LogEntry[V]) -> tuple[dict[int, LogEntry[V]], list[int]]:
        """Takes in what has changed: entries to be written under their numbers, and numbers of those to be deleted."""
        before = list(self._items)
        fresh = self._append({name: value for name, value in changed.items() if value is not None or name in self._where})
        self._drop_superseded()
        fresh |= self._append(self._take_oldest())
        return {number: entry for number, entry in fresh.items() if number in self._items}, [
            number for number in before if number not in self._items
        ]

    def _append(self, items: LogEntry[V]) -> dict[int, LogEntry[V]]:
        fresh: dict[int, LogEntry[V]] = {self._new_entry(): entry for entry in self._cut(items)}
        for number, entry in fresh.items():
            self._take(number, entry)
        return fresh

    def _note(self, name: str, value: V | None, number: int) -> None:
        earlier = self._where.get(name)
        if earlier is not None:
            self._newest[earlier].pop(name, None)
        self._where[name] = number
        self._newest[number][name] = None
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def _cut(self, items: LogEntry[V]) -> Iterator[dict[str, V | None]]:
        some: dict[str, V | None] = {}
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
        # That a name is gone must be known as long as an older entry could bring it back.
        while self._items and self._values.keys().isdisjoint(self._newest[next(iter(self._items))]):
            self._drop(next(iter(self._items)))

    def _take_oldest(self) -> dict[str, V]:
        """What is new in so many of the oldest entries that those left are in proportion to what is new in them.

        Written again, that is; on the average once per item at most.
        """
        taken: dict[str, V] = {}
        stored = sum(self._items.values())
        while stored > 2 * len(self._values) + _SLACK:
            oldest = next(iter(self._items))
            alive = {name: self._values[name] for name in self._newest[oldest] if name in self._values}
            stored -= self._items[oldest] - len(alive)
            taken |= alive
            self._drop(oldest)
        return taken

    def _drop(self, number: int) -> None:
        for name in self._newest.pop(number):
            del self._where[name]
        del self._items[number]
