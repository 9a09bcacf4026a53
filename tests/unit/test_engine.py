"""The fold: when a round closes, whom it trusts, what a move changes until reports show it."""

from dataclasses import replace

import pytest

from strategies.averages.bundle_averages import MOVING_AT_MOST
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, Note, Rejection, TelemetryRecord, Tombstone
from strategies.cluster.strategy_memory import NO_MEMORY
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings, Mode, RoundSettings
from tests.world.telemetry import (
    T0,
    bundle,
    commands,
    fold_all,
    outcome,
    rejections,
    report,
    rounds,
    sweep,
)


def engine(**round_settings: int) -> Engine:
    return Engine(EngineSettings(strategy="threshold", round=RoundSettings(**round_settings)))


def skewed(minute: int, hot: float = 90.0) -> list[TelemetryRecord]:
    """One pass over three brokers, the first of them hot."""
    start = minute * 60
    heavy = {bundle(0): 300.0, bundle(1): 200.0, bundle(2): 150.0}
    return [
        report("hot:1", start + 1, hot, heavy),
        report("cool:1", start + 2, 10.0, {bundle(3): 1.0}),
        report("cold:1", start + 3, 10.0, {bundle(4): 1.0 + minute}),
        sweep(start + 4, "hot:1", "cool:1", "cold:1"),
    ]


def closings(*records: TelemetryRecord) -> list[tuple[str, float]]:
    """What closed each round, and the second of it."""
    closed = rounds(fold_all(engine(), records))
    return [(record.closed_by, (record.ts - T0) / 1000) for record in closed]


def commanded(**round_settings: int) -> tuple[InMemoryStore, Engine, Command]:
    """After the first round, with its first command."""
    store, machine = InMemoryStore(), engine(**round_settings)
    return store, machine, commands(fold_all(machine, skewed(0), store))[0]


class TestWhenARoundCloses:
    def test_sweeps_that_come_too_soon_close_nothing(self) -> None:
        passes = [sweep(10 * i, "a:1") for i in range(13)]
        closed = closings(report("a:1", 0), *passes)
        assert closed == [("sweep", 0), ("sweep", 50), ("sweep", 100)]

    def test_without_sweeps_when_everybody_has_reported_and_the_interval_has_passed(self) -> None:
        records = [report(name, 20 * i, 20 + i) for i in range(8) for name in ("a:1", "b:1")]
        assert closings(*records) == [("all-reported", 60), ("all-reported", 120)]

    def test_without_sweeps_a_silent_broker_delays_a_round_by_no_more_than_the_lateness(
        self,
    ) -> None:
        talking = [report("a:1", 5 * i, 20 + i) for i in range(1, 40)]
        closed = closings(report("a:1", 0), report("b:1", 0), *talking)
        assert closed[:2] == [("all-reported", 60), ("lateness", 135)]

    def test_when_the_collector_stops_sweeping_rounds_go_on(self) -> None:
        reports = [report(name, 20 * i, 20 + i) for i in range(1, 20) for name in ("a:1", "b:1")]
        closed = [by for by, _ in closings(report("a:1", 0), sweep(1, "a:1", "b:1"), *reports)]
        assert closed[:3] == ["sweep", "lateness", "all-reported"]
        assert set(closed[2:]) == {"all-reported"}

    def test_notes_close_nothing_and_move_no_clock(self) -> None:
        notes: list[TelemetryRecord] = [Note("c", T0 + i * 3_600_000) for i in range(5)]
        assert fold_all(engine(), [*notes, *skewed(0)[:3], *notes]) == []


class TestWhoIsTrusted:
    def test_a_broker_nobody_lists_any_more_is_forgotten(self) -> None:
        store = InMemoryStore()
        records: list[TelemetryRecord] = [report("a:1", 0), report("b:1", 0)]
        records += [sweep(1, "a:1", "b:1"), report("a:1", 60, 20), sweep(61, "a:1")]
        last = rounds(fold_all(engine(), records, store))[-1]
        assert (last.brokers, last.stale) == (("a:1",), {})
        assert [broker.broker for broker in store.brokers()] == ["a:1"]

    @pytest.mark.parametrize("mode", ["fixed", "parity"])
    @pytest.mark.parametrize("strategy", ["threshold", "avg", "transfer"])
    def test_a_broker_that_comes_back_starts_without_memory(
        self, strategy: str, mode: Mode
    ) -> None:
        held, store = Engine(EngineSettings(strategy, mode)), InMemoryStore()
        fold_all(held, skewed(0), store)
        before = store.get_broker("hot:1")
        fold_all(held, [Tombstone("c", "hot:1", T0 + 10_000), report("hot:1", 11, 50.0)], store)
        after = store.get_broker("hot:1")
        assert before is not None
        assert after is not None
        assert before.memory != after.memory == NO_MEMORY

    @pytest.mark.parametrize(("seconds", "cpu"), [(10, 51), (5, 50)])
    def test_a_report_of_other_content_that_comes_late_is_rejected(
        self, seconds: float, cpu: float
    ) -> None:
        records = [report("a:1", 10, 50), report("b:1", 10), report("a:1", seconds, cpu)]
        events = fold_all(engine(), records)
        assert [rejection.code for rejection in rejections(events)] == ["out-of-order"]

    @pytest.mark.heavy
    def test_records_that_are_repeated_change_nothing_and_are_no_fault(self) -> None:
        """A collector repeats its pass after an outage, extensible brokers at once."""
        once = [*skewed(0), *skewed(1)]
        assert rounds(fold_all(engine(), once))
        for start in range(len(once)):
            for end in range(start + 1, len(once) + 1):
                again = [*once[:end], *once[start:end], *once[end:]]
                found, expected = fold_all(engine(), again), fold_all(engine(), once)
                assert [event for event in found if not isinstance(event, Rejection)] == expected
                late = end - start > len(skewed(0))
                assert late or rejections(found) == []

    def test_a_sweep_of_another_pass_at_the_same_time_is_rejected(self) -> None:
        other = replace(sweep(2, "hot:1", "cool:1", "cold:1"), sweep=2)
        events = fold_all(engine(), [*skewed(0), replace(other, ts=skewed(0)[-1].ts)])
        assert [rejection.code for rejection in rejections(events)] == ["duplicate"]


class TestWhatAMoveChanges:
    def test_ids_follow_from_content(self) -> None:
        first, again = fold_all(engine(), skewed(0)), fold_all(engine(), skewed(0))
        assert first == again
        other = commands(fold_all(engine(epoch=2), skewed(0)))
        assert not {one.id for one in commands(first)} & {one.id for one in other}

    @pytest.mark.parametrize(("cool_down_ms", "rests"), [(60_000, True), (59_999, False)])
    def test_a_bundle_exactly_as_old_as_the_cool_down_still_rests(
        self, cool_down_ms: int, rests: bool
    ) -> None:
        store, machine, first = commanded(cool_down_ms=cool_down_ms)
        (later,) = rounds(fold_all(machine, skewed(1), store))
        assert later.ts - first.issued_at_ms == 60_000
        assert (store.get_cluster().cooling.get(first.bundle) == first.issued_at_ms) == rests

    def test_a_move_that_was_refused_frees_its_bundle(self) -> None:
        store, machine, first = commanded()
        fold_all(machine, [outcome(first.id, first.bundle, 6, "refused")], store)
        assert first.bundle not in store.get_cluster().cooling
        assert first.bundle not in store.get_cluster().in_flight

    def test_a_command_that_came_too_late_frees_its_bundle_although_its_outcome_comes_later_still(
        self,
    ) -> None:
        store, machine, first = commanded(command_ttl_ms=70_000)
        fold_all(machine, [*skewed(1), *skewed(2)], store)
        fold_all(machine, [outcome(first.id, first.bundle, 130, "expired")], store)
        assert first.bundle not in store.get_cluster().cooling
        later = commands(fold_all(machine, skewed(3), store))
        assert first.bundle in [command.bundle for command in later]

    def test_an_outcome_of_another_command_changes_nothing(self) -> None:
        store, machine, first = commanded()
        before = store.get_cluster()
        fold_all(machine, [outcome("of another epoch", first.bundle, 4, "refused")], store)
        assert store.get_cluster() == replace(before, clock=store.get_cluster().clock)

    def test_both_brokers_of_a_move_are_judged_again_only_on_later_samples(self) -> None:
        store, machine, first = commanded()
        fold_all(machine, [outcome(first.id, first.bundle, 30, "applied", "cold:1")], store)
        touched = [one.broker for one in store.brokers() if one.judged_after_ms > one.sampled_at_ms]
        assert sorted(touched) == ["cold:1", "hot:1"]

    def test_a_move_counts_as_done_until_a_report_shows_it(self) -> None:
        first, second = rounds(fold_all(engine(), [*skewed(0), *skewed(1, hot=90.5)]))
        assert second.usage["hot:1"] < 0.5 < first.usage["hot:1"]

    def test_a_bundle_takes_its_averages_to_its_new_broker_whoever_reports_first(self) -> None:
        moving = bundle(0)
        before = [report("a:1", 0, 50, {moving: 100.0}), report("b:1", 0, 50, {})]
        leaves, arrives = report("a:1", 60, 10, {}), report("b:1", 61, 90, {moving: 200.0})
        turned = [replace(arrives, ts=leaves.ts), replace(leaves, ts=arrives.ts)]
        tables = []
        for order in ([leaves, arrives], turned):
            store = InMemoryStore()
            fold_all(engine(), [*before, sweep(1, "a:1", "b:1"), *order], store)
            tables.append(store.get_table("b:1"))
        assert tables[0] == tables[1]
        assert tables[0] is not None


@pytest.mark.heavy
def test_the_state_stays_small_when_a_large_part_of_the_cluster_leaves() -> None:
    store, machine = InMemoryStore(), engine()
    names = [f"b{i}:1" for i in range(120)]
    crowded = [
        report(name, i / 10, 50, {bundle(k, f"t/n{i}"): 1.0 for k in range(100)})
        for i, name in enumerate(names)
    ]
    fold_all(machine, [*crowded, sweep(20, *names)], store)
    assert len(store.get_cluster().departed) == 0
    fold_all(machine, [report("b0:1", 80, 20), sweep(81, "b0:1")], store)
    assert len(store.get_cluster().departed) == MOVING_AT_MOST


def test_an_empty_cluster_has_rounds_too() -> None:
    (only,) = rounds(fold_all(engine(), [sweep(1)]))
    assert (only.brokers, only.spread.range) == ((), 0.0)


@pytest.mark.heavy
def test_what_an_hour_may_move_is_not_given_twice_when_the_clock_goes_back() -> None:
    """Nobody knows how long ago the moves were: they count for an hour from now on."""
    settings = EngineSettings(strategy="threshold", limits=LimitSettings(moves_per_hour=1))
    a_year = -365 * 24 * 60
    again = [record for minute in range(40) for record in skewed(a_year + minute)]
    events = fold_all(Engine(settings), [*skewed(0), *again])
    assert rounds(events)[-1].ts < T0
    assert "budget" in {
        skip.code for round_ in rounds(events) for skip in round_.skips if round_.ts < T0
    }
    assert len(commands(events)) == 1
    later = [record for minute in range(40, 90) for record in skewed(a_year + minute)]
    assert len(commands(fold_all(Engine(settings), [*skewed(0), *again, *later]))) > 1
