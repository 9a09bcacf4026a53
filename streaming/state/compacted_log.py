"""Stores many small values in few large entries: each micro-batch writes its changes as one entry,
and obsolete entries are deleted.

A call to Spark's state costs about as much as folding a report. So a micro-batch makes as few calls
as possible, however many brokers have changed. This module does not use Spark: it returns the
entries to write, and takes them as arguments after a restart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

V = TypeVar("V")
#: Obsolete items are kept until their number exceeds that of the newest items by this.
_SLACK = 64

#: Cluster → name → value; None means that the name is removed.
LogEntry = Mapping[str, Mapping[str, V | None]]


class CompactedLog(Generic[V]):
    """Names within clusters, and their newest values."""

    def __init__(
        self, weight: Callable[[V], int], entry_weight: int, new_entry: Callable[[], int]
    ) -> None:
        """`weight`: weight of a value; an entry is full at `entry_weight`. `new_entry`: returns a
        number that no entry has ever had.
        """
        self._weight, self._entry_weight, self._new_entry = weight, entry_weight, new_entry
        #: Cluster → name → newest value, without removed names and without empty clusters.
        self.values: dict[str, dict[str, V]] = {}
        #: Weight of all these values together.
        self.total_weight = 0
        # Stored entries by number, oldest first: the names of their items by cluster, the number of
        # items, of these the newest ones of their names, and of these the ones with a value.
        self._names: dict[int, dict[str, tuple[str, ...]]] = {}
        self._items: dict[int, int] = {}
        self._newest: dict[int, int] = {}
        self._newest_values: dict[int, int] = {}
        # Cluster → name → the entry of its newest item.
        self._where: dict[str, dict[str, int]] = {}

    @property
    def entries(self) -> list[int]:
        """Numbers of the stored entries, oldest first."""
        return list(self._names)

    def of(self, cluster: str) -> dict[str, V]:
        """Returns the newest values of a cluster by name, which the caller does not change."""
        return self.values.get(cluster, {})

    def follow(self, entries: Sequence[int], read: Callable[[int], LogEntry[V]]) -> bool:
        """Applies the entries that another log, once equal to this one, has written since;
        `entries`: its stored ones, oldest first.

        Reads unknown entries only. False if this log is not an earlier state of the other one; its
        content is then invalid.
        """
        present = set(entries)
        taken = [number for number in self._names if number in present]
        if taken != list(entries[: len(taken)]):
            return False
        for number in entries[len(taken) :]:
            self._take(number, read(number))
        for number in [number for number in self._names if number not in present]:
            if self._newest[number]:
                return False
            self._drop(number)
        return True

    def _take(self, number: int, entry: LogEntry[V]) -> None:
        """Thousands of items in each micro-batch: a loop with few calls of its own."""
        newest, newest_values, weight = self._newest, self._newest_values, self._weight
        self._names[number] = {cluster: tuple(items) for cluster, items in entry.items()}
        self._items[number] = newest[number] = sum(map(len, entry.values()))
        newest_values[number] = 0
        for cluster, items in entry.items():
            where = self._where.setdefault(cluster, {})
            values = self.values.setdefault(cluster, {})
            for name, value in items.items():
                earlier, replaced = where.get(name), values.get(name)
                if earlier is not None:
                    newest[earlier] -= 1
                if replaced is not None:
                    self.total_weight -= weight(replaced)
                    if earlier is not None:
                        newest_values[earlier] -= 1
                where[name] = number
                if value is not None:
                    values[name] = value
                    self.total_weight += weight(value)
                    newest_values[number] += 1
                elif replaced is not None:
                    del values[name]
            if not values:
                del self.values[cluster]

    def write(self, changed: LogEntry[V]) -> tuple[dict[int, LogEntry[V]], list[int]]:
        """Applies changes; returns the entries to write, by number, and the numbers of the entries
        to delete.
        """
        before = self.entries
        fresh = self._append(changed)
        self._drop_superseded()
        fresh |= self._append(self._take_oldest())
        return {number: entry for number, entry in fresh.items() if number in self._names}, [
            number for number in before if number not in self._names
        ]

    def _append(self, items: LogEntry[V]) -> dict[int, LogEntry[V]]:
        fresh: dict[int, LogEntry[V]] = {self._new_entry(): entry for entry in self._cut(items)}
        for number, entry in fresh.items():
            self._take(number, entry)
        return fresh

    def _cut(self, items: LogEntry[V]) -> Iterator[dict[str, dict[str, V | None]]]:
        """Parts that are full, without removals of unknown names."""
        part: dict[str, dict[str, V | None]] = {}
        weight, weigh = 0, self._weight
        for cluster, values in items.items():
            where, names = self._where.get(cluster, {}), dict[str, V | None]()
            for name, value in values.items():
                if value is not None:
                    weight += weigh(value)
                elif name not in where:
                    continue
                names[name] = value
                if weight >= self._entry_weight:
                    yield {**part, cluster: names}
                    part, names, weight = {}, {}, 0
            if names:
                part[cluster] = names
        if part:
            yield part

    def _drop_superseded(self) -> None:
        for number in [number for number in self._names if not self._newest[number]]:
            self._drop(number)
        # The removal of a name must be kept as long as an older entry could restore the name.
        while self._names and not self._newest_values[next(iter(self._names))]:
            self._drop(next(iter(self._names)))

    def _take_oldest(self) -> dict[str, dict[str, V]]:
        """Removes the oldest entries until few obsolete items remain; returns the current items of
        the removed entries.

        The caller writes these items again, on average at most once per item.
        """
        taken: dict[str, dict[str, V]] = {}
        stored, most = sum(self._items.values()), 2 * sum(self._newest_values.values()) + _SLACK
        while stored > most:
            oldest = next(iter(self._names))
            stored -= self._items[oldest] - self._newest_values[oldest]
            for cluster, names in self._drop(oldest).items():
                values = self.of(cluster)
                if current := {name: values[name] for name in names if name in values}:
                    taken.setdefault(cluster, {}).update(current)
        return taken

    def _drop(self, number: int) -> dict[str, list[str]]:
        """Removes an entry; returns the names whose newest item it holds."""
        names, newest = self._names.pop(number), self._newest.pop(number)
        del self._items[number], self._newest_values[number]
        newest_names: dict[str, list[str]] = {}
        for cluster, names_of in names.items() if newest else ():
            where = self._where[cluster]
            if current := [name for name in names_of if where.get(name) == number]:
                newest_names[cluster] = current
            for name in current:
                del where[name]
            if not where:
                del self._where[cluster]
        return newest_names
