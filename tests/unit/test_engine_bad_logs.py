"""Logs with broken clocks or old records are decided as without such records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, LoadReport, Rejection, Round, TelemetryRecord, Tombstone
from strategies.fold.engine import Engine, EngineSettings
from tests.world.telemetry import T0, fold_all, report, sweep

YEAR_S = 365 * 24 * 3600.0


def engine() -> Engine:
    return Engine(EngineSettings(strategy="threshold"))


def decided(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Rejection)]


def same_as(expected: Sequence[TelemetryRecord], *log: TelemetryRecord) -> list[str]:
    """Codes of what the log rejects; what it decides is what the expected one does."""
    events = fold_all(engine(), log)
    assert decided(events) == decided(fold_all(engine(), expected))
    return codes(events)


def known(*log: TelemetryRecord) -> tuple[list[str], InMemoryStore]:
    """The brokers that are known after the log, which closes no round."""
    store = InMemoryStore()
    assert fold_all(engine(), log, store) == []
    return [broker.broker for broker in store.brokers()], store


def codes(events: Iterable[Event]) -> list[str]:
    return [event.code for event in events if isinstance(event, Rejection)]


def three_passes() -> list[TelemetryRecord]:
    return [record for i in range(3) for record in one_pass(60 * i)]


def one_pass(seconds: int) -> list[TelemetryRecord]:
    return [
        report("a:1", seconds, 90 - seconds / 60),
        report("b:1", seconds + 1, 10 + seconds / 60),
        sweep(seconds + 2, "a:1", "b:1"),
    ]


def tables_only(
    broker: str, seconds: float, bundles: Mapping[str, float] | None = None
) -> LoadReport:
    """Without bundles it is a tombstone."""
    return replace(report(broker, seconds, bundles=bundles), figures=None)


def figures_only(broker: str, seconds: float) -> LoadReport:
    return replace(report(broker, seconds), bundles=None)


@pytest.mark.parametrize("years", list(permutations((1, 20, 70))))
def test_a_log_may_begin_with_several_broken_clocks_that_do_not_agree(
    years: tuple[int, ...],
) -> None:
    broken = [report("a:1", n * YEAR_S, 99) for n in years]
    assert same_as(three_passes(), *broken, *three_passes()) == ["clock-ahead"] * 3


@pytest.mark.parametrize("hours", [1, -1, 24 * 365])
@pytest.mark.parametrize("count", [1, 2, 3, 20, 100])
def test_a_log_may_begin_with_records_of_another_time_that_agree_with_each_other(
    count: int, hours: int
) -> None:
    """A clock ahead, or leftovers: the time of a sweep counts, however many came before it."""
    wrong = [report("a:1", 3600 * hours + i / 10, 50 + i / 10) for i in range(count)]
    rejected = same_as(three_passes(), *wrong, *three_passes())
    assert rejected == ["clock-ahead" if hours > 0 else "clock-behind"] * count


@pytest.mark.parametrize("hours", [2, -2])
def test_another_time_may_take_turns_with_the_right_one_from_the_first_record_on(
    hours: int,
) -> None:
    right = three_passes()
    turns = [
        record
        for i, one in enumerate(right)
        for record in (report("b:1", 3600 * hours + i, 60 + i), one)
    ]
    expected = ["clock-ahead" if hours > 0 else "clock-behind"] * len(right)
    assert same_as(right, *turns) == expected


@pytest.mark.parametrize("hours", [3, -3])
def test_without_sweeps_the_time_counts_that_most_records_are_near_to(hours: int) -> None:
    right: list[TelemetryRecord] = [
        report(name, 5 * i, 20 + i) for i in range(26) for name in ("a:1", "b:1")
    ]
    wrong: list[TelemetryRecord] = [report("a:1", 3600 * hours + 100 * i, 60 + i) for i in range(3)]
    expected = decided(fold_all(engine(), right))
    assert len(expected) == 2
    for at in (0, 1, 2, 5):
        assert decided(fold_all(engine(), [*right[:at], *wrong, *right[at:]])) == expected


def test_what_was_taken_for_wrong_at_the_beginning_is_rejected_once() -> None:
    """Repetitions are none; one old record stays alone until the first round closes."""
    ahead, old = report("a:1", 3600), report("b:1", -3600)
    right = three_passes()
    rejected = same_as(right, ahead, ahead, old, right[0], right[0], *right[1:])
    assert sorted(rejected) == ["clock-ahead", "clock-behind"]


def test_a_log_that_begins_with_a_record_of_long_ago_goes_on_once_that_is_certain() -> None:
    passes: list[TelemetryRecord] = [record for i in range(30) for record in one_pass(60 * i)]
    events = fold_all(engine(), [report("a:1", -YEAR_S), *passes])
    assert {event.ts for event in events if isinstance(event, Round)} <= {
        record.ts for record in passes
    }
    assert len(decided(events)) >= 10


def test_a_report_from_before_a_broker_withdrew_does_not_bring_it_back() -> None:
    store = InMemoryStore()
    old, gone = report("b:1", 5, 20), Tombstone("c", "b:1", T0 + 10_000)
    begin = report("a:1", 4), old, report("b:1", 6, 21), gone
    events = fold_all(engine(), [*begin, old, replace(old, ts=gone.ts)], store)
    assert codes(events) == ["out-of-order", "out-of-order"]
    assert [broker.broker for broker in store.brokers()] == ["a:1"]


def test_a_report_from_before_a_broker_left_does_not_bring_it_back() -> None:
    """Its collector does not list it any more; what lay in some queue meanwhile is old news."""
    left: list[TelemetryRecord] = [*one_pass(0), *one_pass(60)]
    left += [report("a:1", 120, 50), sweep(122, "a:1")]
    later = report("a:1", 180, 51), sweep(182, "a:1")
    assert same_as([*left, *later], *left, report("b:1", 1), *later) == ["out-of-order"]


def test_a_broker_whose_bundles_came_before_its_figures_is_not_forgotten_between_the_two() -> None:
    store = InMemoryStore()
    log: list[TelemetryRecord] = [
        report("a:1", 0),
        tables_only("b:1", 1),
        sweep(2, "a:1", "b:1"),
        figures_only("b:1", 3),
        report("a:1", 61, 20),
        sweep(62, "a:1", "b:1"),
    ]
    first, second = [event for event in fold_all(engine(), log, store) if isinstance(event, Round)]
    assert first.stale["b:1"].startswith("no load figures yet")
    assert second.brokers == ("a:1", "b:1")
    assert store.get_table("b:1") is not None


def test_a_broker_that_withdraws_its_figures_and_then_its_bundles_is_gone() -> None:
    """The second of two tombstones must not look like a newcomer."""
    log = report("a:1", 0), report("b:1", 1), Tombstone("c", "b:1", T0 + 3000)
    assert known(*log, tables_only("b:1", 4, {}))[0] == ["a:1"]


def test_tombstones_are_never_rejected_in_whatever_order_and_however_often_they_come() -> None:
    """A leader writes both in one millisecond, on two topics that nothing keeps in order."""
    figures, bundles = Tombstone("c", "b:1", T0 + 3000), tables_only("b:1", 3, {})
    begin = report("a:1", 0), report("b:1", 1), tables_only("b:1", 2)
    orders: list[list[TelemetryRecord]] = [
        [figures, bundles],
        [bundles, figures],
        [figures, figures, bundles, bundles],
        [bundles, figures, bundles, figures],
    ]
    for tombstones in orders:
        assert known(*begin, *tombstones)[0] == ["a:1"]


def test_a_tombstone_that_was_overtaken_by_new_figures_withdraws_nothing_and_is_no_error() -> None:
    new = figures_only("b:1", 3), tables_only("b:1", 3)
    late = Tombstone("c", "b:1", T0 + 1000), tables_only("b:1", 1, {})
    brokers, store = known(report("a:1", 0), *new, *late)
    assert sorted(brokers) == ["a:1", "b:1"]
    assert store.get_table("b:1") is not None


def test_a_tombstone_withdraws_figures_also_where_bundles_were_listed_since() -> None:
    """A collector repeats the list that holds; the broker's word about figures counts."""
    log = report("a:1", 0), figures_only("b:1", 1), tables_only("b:1", 4)
    assert known(*log, Tombstone("c", "b:1", T0 + 3000))[0] == ["a:1"]
