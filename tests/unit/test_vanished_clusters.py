"""A cluster that was away for longer than the setting begins again without memory."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, Policies, Rejection, TelemetryRecord
from strategies.cluster.quota import UnreadRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.time_jumps_and_forgetting import forget, remains
from strategies.settings import BulkheadSettings, RoundSettings
from strategies.shedding.threshold.settings import ThresholdSettings
from tests.world.intents import drain, id_of
from tests.world.telemetry import T0, bundle, commands, fold_all, report, rounds, sweep

DAY_S = 86_400
BROKERS = ("b1", "b2", "b3")
SETTINGS = EngineSettings(
    strategy="threshold", shedding=ThresholdSettings(), round=RoundSettings(cool_down_ms=60_000)
)
ENGINE = Engine(SETTINGS)


def minutes(start_s: float, number: int, brokers: Sequence[str] = BROKERS) -> list[TelemetryRecord]:
    """Passes of a collector, one a minute; the first broker carries most."""
    records: list[TelemetryRecord] = []
    for at in range(number):
        now = start_s + 60 * at
        for place, name in enumerate(brokers):
            loads = {bundle(4 * place + i, "t/ns"): 40.0 / (1 + place) + i for i in range(4)}
            records.append(report(name, now + place, 90.0 / (1 + 2 * place), loads))
        records.append(sweep(now + 10, *brokers))
    return records


def fold(
    records: Sequence[TelemetryRecord], store: InMemoryStore, engine: Engine = ENGINE
) -> list[Event]:
    return fold_all(engine, records, store)


def after(days: float, engine: Engine = ENGINE) -> tuple[InMemoryStore, list[Event]]:
    """A cluster that decided for ten minutes and came back for half an hour."""
    store = InMemoryStore()
    fold(minutes(0, 10), store, engine)
    return store, fold(minutes(days * DAY_S, 30), store, engine)


def test_a_cluster_that_comes_back_decides_as_a_new_one_with_numbers_that_go_on() -> None:
    _, back = after(8)
    first = rounds(back)[0].round
    assert first == 11
    begun = (rounds(back)[0].ts - T0) // 1000
    new = fold(minutes(begun - 10, 14), InMemoryStore())
    ours, others = rounds(back)[:10], rounds(new)[:10]
    assert [(one.usage, one.spread, one.skips) for one in ours] == [
        (one.usage, one.spread, one.skips) for one in others
    ]
    assert [one.round for one in ours] == [one.round + 10 for one in others]
    assert [one.bundle for one in commands(back)][:3] == [one.bundle for one in commands(new)][:3]
    assert len(commands(back)) > 2


@pytest.mark.parametrize(("days", "of"), [(6, 7), (8, 9), (300, 0)])
def test_a_shorter_absence_and_one_without_the_setting_keep_the_memory(days: int, of: int) -> None:
    chosen = replace(SETTINGS, round=replace(SETTINGS.round, forget_cluster_after_days=of))
    store = InMemoryStore()
    engine = Engine(chosen)
    fold(minutes(0, 10), store, engine)
    averages = [broker.memory.ewma for broker in store.brokers()]
    records = minutes(days * DAY_S, 30)
    for record in records:
        events = engine.fold(record, store)
        if not (events and isinstance(events[0], Rejection)):
            break
    assert [broker.memory.ewma for broker in store.brokers()] == averages
    assert None not in averages


def test_one_broker_with_a_clock_ahead_makes_nothing_forgotten() -> None:
    records = minutes(0, 30)
    wrong = [report("b9", 60 * at + 20 * DAY_S) for at in range(30)]
    store, alone = InMemoryStore(), InMemoryStore()
    mixed = list[TelemetryRecord]()
    for at, late in enumerate(wrong):
        mixed += [*records[4 * at : 4 * at + 4], late]
    events = fold(mixed, store)
    assert sum(isinstance(event, Rejection) for event in events) == 30
    assert commands(events) == commands(fold(records, alone))
    assert list(store.brokers()) == list(alone.brokers())


def test_policies_and_what_operators_asked_for_remain() -> None:
    store, snapshot = InMemoryStore(), '{"isolation":{}}'
    fold(minutes(0, 10), store)
    fold([Policies("c", T0 + 600_000, snapshot), drain(1, 605, "b2")], store)
    kept = remains(store.get_cluster())
    assert remains(kept) == kept
    assert (kept.round, kept.policies) == (10, snapshot)
    back = fold(minutes(8 * DAY_S, 30), store)
    (status,) = rounds(back)[0].intents
    assert (status.id, status.broker) == (id_of(1), "b2")
    assert rounds(back)[-1].intents[0].state != "asked"


def test_what_a_quota_set_aside_before_is_reported_whether_or_not_rows_had_left() -> None:
    settings = replace(SETTINGS, bulkhead=BulkheadSettings(records=1, records_per_broker=0))
    reported = []
    for sweeps in (False, True):
        store = InMemoryStore()
        fold(minutes(0, 10), store)
        admits = Engine(settings).admits
        first = [UnreadRecord(T0, 10, ("t", 0, at)) for at in range(3)]
        assert [admits(one, store)[0] for one in first] == [True, False, False]
        if sweeps:
            store.put_cluster(forget(store.get_cluster(), store))
        later = UnreadRecord(T0 + 8 * DAY_S * 1000, 10, ("t", 0, 3))
        reported.append(admits(later, store))
    assert reported[0] == reported[1]
    admitted_again, earlier = reported[0]
    assert admitted_again
    assert earlier is not None
    assert (earlier.first, earlier.last) == (("t", 0, 1), ("t", 0, 2))


def test_a_cluster_that_never_had_a_round_keeps_its_first_records() -> None:
    store = InMemoryStore()
    fold([report("b1", 0), report("b2", 1)], store)
    state = store.get_cluster()
    assert remains(state) == state
    assert len(state.early or ()) == 2
