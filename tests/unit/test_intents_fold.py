"""Intents in the fold: they have no time of their own, count once, and wait for the first round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strategies.cluster.intent_contract import Intent
from strategies.cluster.intent_state import NO_INTENTS
from strategies.cluster.model import Rejection, Round, TelemetryRecord
from strategies.cluster.store import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from tests.world.intents import drain, id_of, undrain
from tests.world.telemetry import T0, fold_all, rejections, report, rounds, sweep

ENGINE = Engine(EngineSettings())
BROKERS = ("a:1", "b:1", "c:1")


def a_pass(seconds: float) -> list[TelemetryRecord]:
    return [*(report(name, seconds) for name in BROKERS), sweep(seconds + 1, *BROKERS)]


def test_a_drain_is_in_the_next_round() -> None:
    events = fold_all(ENGINE, [*a_pass(0), drain(1, 10, "a:1"), *a_pass(60)])
    first, second = rounds(events)
    assert first.intents == ()
    assert [(one.id, one.action, one.broker) for one in second.intents] == [
        (id_of(1), "drain", "a:1")
    ]
    assert not rejections(events)


def test_a_refused_record_is_a_status_and_a_row() -> None:
    events = fold_all(ENGINE, [*a_pass(0), drain(1, 10, "no:1"), *a_pass(60)])
    (rejection,) = rejections(events)
    assert rejection.code == "intent-refused"
    assert "no broker no:1 has reported; known brokers: a:1, b:1, c:1 [unknown" in rejection.text
    (status,) = rounds(events)[-1].intents
    assert (status.state, status.id) == ("refused", id_of(1))
    assert "[unknown-broker]" in status.text


@pytest.mark.heavy
def test_ended_intents_are_shown_for_an_hour() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, [*a_pass(0), drain(1, 10, "no:1")], store)
    shown = [
        len(rounds(fold_all(ENGINE, a_pass(60 * minute), store))[0].intents)
        for minute in range(1, 63)
    ]
    assert (shown[58], shown[-1]) == (1, 0)
    assert store.get_cluster().intents == NO_INTENTS


def test_the_time_of_an_intent_moves_nothing() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, a_pass(0), store)
    clock = store.get_cluster().clock
    for number, seconds in enumerate((250, -250, 400, -400)):
        fold_all(ENGINE, [drain(number, seconds, f"x{number}:1")], store)
    assert store.get_cluster().clock == clock
    (ahead,) = ENGINE.fold(drain(9, 400, "a:1"), store)
    (behind,) = ENGINE.fold(drain(9, -400, "a:1"), store)
    assert isinstance(ahead, Rejection)
    assert isinstance(behind, Rejection)
    assert (ahead.code, behind.code) == ("clock-ahead", "clock-behind")
    assert "correct the clock of the machine that wrote it" in ahead.text
    assert not store.get_cluster().intents.drains


def test_intents_before_the_first_round_wait_for_it() -> None:
    """Whether they come first of all, or between the first records; a far one is rejected then."""
    early: list[Intent] = [drain(1, 0, "a:1"), drain(2, 1, "no:1"), drain(3, 9_000, "b:1")]
    for records in ([*early, *early, *a_pass(0)], [*a_pass(0)[:2], *early, *a_pass(0)[2:]]):
        store = InMemoryStore()
        events = fold_all(ENGINE, records, store)
        assert [one.code for one in rejections(events)] == ["intent-refused", "clock-ahead"]
        assert [*store.get_cluster().intents.drains] == ["a:1"]
        assert isinstance(events[-3], Round)


def test_a_log_whose_time_goes_back_keeps_the_drains() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, [*a_pass(0), drain(1, 10, "a:1", until_ms=T0 + 10**9)], store)
    back = [record for step in range(40) for record in a_pass(-100_000 + step * 60)]
    fold_all(ENGINE, back, store)
    state = store.get_cluster()
    assert state.clock is not None
    assert state.clock.now_ms < T0
    assert state.intents.drains["a:1"].since_ms <= state.clock.now_ms
    assert replace(state.intents, seen={}, drains={}) == NO_INTENTS


def test_a_flood_of_records_does_not_fill_the_state() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, a_pass(0), store)
    events = fold_all(ENGINE, [undrain(number, 10, "a:1") for number in range(1_500)], store)
    intents = store.get_cluster().intents
    assert len(rejections(events)) == 1_500
    assert (len(intents.seen), len(intents.ended)) == (999, 999)
    (done,) = rounds(fold_all(ENGINE, a_pass(60), store))
    assert len(done.intents) == 50
