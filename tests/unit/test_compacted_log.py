"""Whatever happens, the entries that are kept hold the newest values and little else."""

from collections import defaultdict
from copy import deepcopy
from itertools import count
from random import Random

import pytest

from streaming.state.compacted_log import CompactedLog, LogEntry

#: The first draws show most faults at once.
DRAWS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(3, 30))]


def weigh(_: int) -> int:
    return 1


def items_in(entry: LogEntry[int]) -> int:
    return sum(map(len, entry.values()))


class Kept:
    """Entries as Spark would keep them, and the journal that writes them."""

    def __init__(self, entry_weight: int = 1_000) -> None:
        self.entries: dict[int, LogEntry[int]] = {}
        self.written = 0
        numbers = count()
        # Copies of a function are the function: whoever strays from here does not take numbers that
        # are taken.
        self._entry_weight, self._new_entry = entry_weight, lambda: next(numbers)
        self.journal = self._empty()

    def write(self, **changed: int | None) -> None:
        self.write_all({"c": changed})

    def write_all(self, changed: LogEntry[int]) -> None:
        fresh, gone = self.journal.write(changed)
        assert not fresh.keys() & set(gone)
        self.written += sum(map(items_in, fresh.values()))
        self.entries |= fresh
        for number in gone:
            del self.entries[number]
        assert self.journal.entries == sorted(self.entries)

    def read_again(self) -> CompactedLog[int]:
        journal = self._empty()
        assert journal.follow(self.journal.entries, self.entries.__getitem__)
        return journal

    def _empty(self) -> CompactedLog[int]:
        return CompactedLog(weigh, self._entry_weight, self._new_entry)


def test_an_entry_goes_when_everything_in_it_is_older() -> None:
    kept = Kept()
    kept.write(a=1, b=1)
    kept.write(c=1)
    kept.write(a=2, b=2)
    assert kept.entries == {1: {"c": {"c": 1}}, 2: {"c": {"a": 2, "b": 2}}}
    kept.write(a=3, b=3)
    assert [*kept.entries] == [1, 3], "also one that is not the oldest"


@pytest.mark.parametrize(("names", "oldest_is_kept"), [(35, True), (34, False)])
def test_twice_what_is_new_and_64_items_more_may_be_kept(names: int, oldest_is_kept: bool) -> None:
    """33 of 35 are gone: 68 items for two values. 33 of 34: 67 items for one."""
    kept = Kept()
    kept.write(**{f"n{i}": i for i in range(names)})
    kept.write(**dict.fromkeys([f"n{i}" for i in range(33)]))
    assert (0 in kept.entries) is oldest_is_kept
    assert kept.read_again().of("c") == {f"n{i}": i for i in range(33, names)}


def test_an_entry_does_not_grow_without_limit() -> None:
    kept = Kept(entry_weight=3)
    kept.write(**{f"n{i}": i for i in range(8)})
    assert [items_in(entry) for entry in kept.entries.values()] == [3, 3, 2]


@pytest.mark.parametrize("seed", DRAWS)
def test_whatever_happens_the_newest_values_are_kept_and_old_ones_do_not_pile_up(seed: int) -> None:
    draw, model, asked = Random(seed), dict[str, dict[str, int]](), 0
    kept, clusters = Kept(draw.choice([2, 10, 1_000])), draw.choice(["c", "abc"])
    for step in range(200):
        changed = defaultdict[str, dict[str, int | None]](dict)
        for _ in range(draw.choice([1, 5, 100])):
            name = f"n{draw.randrange(draw.choice([3, 40, 300]))}"
            changed[draw.choice(clusters)][name] = None if draw.random() < 0.1 else step
        for cluster, some in changed.items():
            newest = {**model.get(cluster, {}), **some}
            there = {name: value for name, value in newest.items() if value is not None}
            model = {name: one for name, one in {**model, cluster: there}.items() if one}
        kept.write_all(changed)
        asked += items_in(changed)
        assert kept.journal.values == model
        assert kept.journal.total_weight == items_in(model)
        if step % 10 == 0:
            assert kept.read_again().values == model
        if draw.random() < 0.05:
            kept.journal = kept.read_again()
    lying = sum(map(items_in, kept.entries.values()))
    assert lying <= 2 * items_in(model) + 64
    assert kept.written <= 2 * asked


def follow(behind: CompactedLog[int], kept: Kept) -> tuple[bool, list[int]]:
    """Whether it could, and which entries it had to read."""
    read: list[int] = []

    def entry(number: int) -> LogEntry[int]:
        read.append(number)
        return kept.entries[number]

    return behind.follow(kept.journal.entries, entry), read


def test_only_entries_that_are_new_are_read() -> None:
    kept = Kept()
    kept.write(a=1, b=1, c=1)
    behind = deepcopy(kept.journal)
    kept.write(b=2)
    kept.write(c=None)
    assert follow(behind, kept) == (True, [1, 2])
    assert behind.of("c") == {"a": 1, "b": 2}
    assert follow(behind, kept) == (True, [])


def test_one_that_lacks_an_entry_or_has_them_in_another_order_is_of_no_use() -> None:
    """Of two values the one in the later entry counts."""
    kept = Kept()
    kept.write(a=1)
    kept.write(b=1)
    kept.write(c=1)
    assert not kept.read_again().follow([1, 0, 2], kept.entries.__getitem__)
    behind = CompactedLog[int](weigh, 1_000, lambda: 9)
    assert behind.follow([0, 2], kept.entries.__getitem__)
    assert not behind.follow([0, 1, 2], kept.entries.__getitem__)


@pytest.mark.heavy
def test_whoever_follows_has_what_there_is_or_says_that_it_has_not() -> None:
    followed = refused = 0
    for seed in range(20):
        draw = Random(seed)
        kept = Kept(draw.choice([2, 10, 1_000]))
        others = [deepcopy(kept.journal) for _ in range(3)]
        for step in range(60):
            strayed = deepcopy(kept)
            for one in (strayed, kept):
                changed = {
                    f"n{draw.randrange(12)}": None if draw.random() < 0.2 else step
                    for _ in range(draw.randrange(8))
                }
                one.write(**changed)
            others[draw.randrange(3)] = (
                draw.choice([strayed, kept]).journal
                if draw.random() < 0.3
                else others[draw.randrange(3)]
            )
            place = draw.randrange(3)
            behind = deepcopy(others[place])
            if follow(behind, kept)[0]:
                followed += 1
                assert behind.values == kept.journal.values
                assert behind.entries == kept.journal.entries
                others[place] = behind
                kept.journal = deepcopy(behind) if draw.random() < 0.3 else kept.journal
            else:
                refused += 1
                others[place] = kept.read_again()
    assert followed > 300
    assert refused > 30
