"""Many values in few entries: whatever happens to them, the entries that are kept hold exactly the newest ones, and little else."""

from __future__ import annotations

from random import Random

from streaming.journal import Entry, Journal


def weigh(_: int) -> int:
    return 1


class Kept:
    """Entries as Spark would keep them, and the journal that writes them."""

    def __init__(self, entry_weight: int = 1_000) -> None:
        self.entries: dict[int, Entry[int]] = {}
        self.written = 0
        self._entry_weight = entry_weight
        self.journal = Journal(weigh, entry_weight)

    def write(self, **changed: int | None) -> None:
        fresh, gone = self.journal.write(changed)
        assert not fresh.keys() & set(gone)
        self.written += sum(map(len, fresh.values()))
        self.entries |= fresh
        for number in gone:
            del self.entries[number]
        assert self.journal.entries == sorted(self.entries)

    def read_again(self) -> Journal[int]:
        journal = Journal(weigh, self._entry_weight)
        for number in self.journal.entries:
            journal.read(number, self.entries[number])
        return journal


def test_what_one_batch_has_changed_is_one_entry() -> None:
    kept = Kept()
    kept.write(a=1, b=2)
    kept.write(b=3)
    assert kept.entries == {0: {"a": 1, "b": 2}, 1: {"b": 3}}
    assert kept.read_again().values == kept.journal.values == {"a": 1, "b": 3}


def test_a_batch_without_changes_writes_nothing() -> None:
    kept = Kept()
    kept.write()
    assert kept.entries == {}


def test_an_entry_goes_when_everything_in_it_is_older() -> None:
    kept = Kept()
    kept.write(a=1, b=1)
    kept.write(c=1)
    kept.write(a=2, b=2)
    assert kept.entries == {1: {"c": 1}, 2: {"a": 2, "b": 2}}


def test_what_is_gone_does_not_come_back_from_an_older_entry() -> None:
    kept = Kept()
    kept.write(a=1, b=1)
    kept.write(a=2)
    kept.write(a=None)
    assert kept.read_again().values == {"b": 1}
    kept.write(b=2)
    assert kept.entries == {3: {"b": 2}}


def test_what_was_never_there_leaves_no_trace_when_it_goes() -> None:
    kept = Kept()
    kept.write(a=None)
    assert kept.entries == {}


def test_an_entry_does_not_grow_without_limit() -> None:
    kept = Kept(entry_weight=3)
    kept.write(**{f"n{i}": i for i in range(8)})
    assert [len(entry) for entry in kept.entries.values()] == [3, 3, 2]


def test_whatever_happens_the_newest_values_are_kept_and_old_ones_do_not_pile_up() -> None:
    for seed in range(30):
        draw, model, asked = Random(seed), dict[str, int](), 0
        kept = Kept(draw.choice([2, 10, 1_000]))
        for step in range(200):
            names = [f"n{draw.randrange(draw.choice([3, 40, 300]))}" for _ in range(draw.choice([1, 5, 100]))]
            changed = {name: None if draw.random() < 0.1 else step for name in names}
            model = {name: value for name, value in {**model, **changed}.items() if value is not None}
            kept.write(**changed)
            asked += len(changed)
            assert kept.journal.values == model
            if step % 10 == 0:
                assert kept.read_again().values == model
            if draw.random() < 0.05:
                kept.journal = kept.read_again()
        lying = sum(map(len, kept.entries.values()))
        assert lying <= 2 * len(model) + 64
        assert kept.written <= 2 * asked
