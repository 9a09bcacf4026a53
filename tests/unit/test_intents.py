"""Which intents are accepted, and what becomes of them in the fold: they have no time of their own,
count once, and wait for the first round.
"""

from dataclasses import replace

import pytest

from strategies.cluster.asked_by_hand import Asked, AskedSplit
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.intent_records_and_states import Intent, RollPhase, status_of_refused
from strategies.cluster.model import Round, TelemetryRecord
from strategies.cluster.remembered_intents import (
    NO_INTENTS,
    Intents,
    forget_old_intents,
    intents_of_statuses,
    statuses,
)
from strategies.fold.accept_intent import accept
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.intent_refusals import IntentFleet, IntentRefusal
from tests.world.intents import drain, id_of, intent, of_roll, roll, undrain
from tests.world.telemetry import T0, fold_all, rejections, report, rounds, sweep

FLEET = IntentFleet(["a:1", "b:1", "c:1", "x:1", "dead:1"], ["a:1", "b:1", "c:1", "x:1"], ["x:1"])
BEGUN = roll(1, 0, "a:1", "b:1")
BUNDLE = "t/ns/0x00000000_0x40000000"
NOW = T0 + 60_000


def after(*records: Intent, intents: Intents = NO_INTENTS, fleet: IntentFleet = FLEET) -> Intents:
    for record in records:
        judged = accept(intents, fleet, record, NOW)
        assert isinstance(judged, Intents), judged
        intents = judged
    return intents


def code(record: Intent, intents: Intents = NO_INTENTS, fleet: IntentFleet = FLEET) -> str:
    judged = accept(intents, fleet, record, NOW)
    assert isinstance(judged, IntentRefusal), judged
    assert judged.text
    assert judged.advice.endswith(".")
    return judged.code


def phase(intents: Intents, broker: str, to: RollPhase) -> Intents:
    """As a round sets it."""
    assert intents.roll is not None
    return replace(intents, roll=replace(intents.roll, phases={**intents.roll.phases, broker: to}))


def test_a_drain_begins_and_ends() -> None:
    draining = after(drain(1, 50, "a:1", until_ms=NOW + 1))
    assert draining.drains["a:1"].until_ms == NOW + 1
    ended = after(undrain(2, 55, "a:1"), intents=draining)
    assert not ended.drains
    assert [(one.id, one.state) for one in ended.ended] == [(id_of(1), "cancelled")]
    drained = replace(draining.drains["a:1"], state="drained", drained_ms=NOW)
    ended = after(undrain(3, 55, "a:1"), intents=Intents({"a:1": drained}))
    assert [one.state for one in ended.ended] == ["done"]


def test_drains_that_are_refused() -> None:
    draining = after(drain(1, 50, "a:1"))
    assert code(drain(2, 50, "no:1")) == "unknown-broker"
    assert code(drain(2, 50, "dead:1")) == "not-live"
    assert code(drain(2, 50, "x:1")) == "excluded-broker"
    assert code(drain(2, 50, "a:1", until_ms=NOW)) == "until-passed"
    assert code(drain(2, 50, "a:1"), draining) == "already-drained"
    assert code(drain(2, 50, "b:1"), draining) == "another-drain"
    assert code(undrain(2, 50, "b:1"), draining) == "not-drained"


def test_the_last_broker_stays() -> None:
    two = after(drain(1, 50, "a:1"), drain(2, 50, "b:1", together=True))
    assert code(drain(3, 50, "c:1", together=True), two) == "last-broker"
    assert code(drain(3, 50, "a:1"), fleet=IntentFleet(["a:1"], ["a:1"])) == "last-broker"
    assert code(roll(3, 0, "a:1"), fleet=IntentFleet(["a:1"], ["a:1"])) == "last-broker"
    assert code(roll(3, 0, "a:1", "b:1", max_unavailable=3)) == "last-broker"


def test_a_broker_of_a_roll_from_begin_to_end() -> None:
    draining = after(BEGUN, of_roll(2, "drain", 1, BEGUN, "a:1"))
    assert draining.roll is not None
    assert draining.roll.phases == {"a:1": "draining", "b:1": "waiting"}
    assert draining.roll.record == id_of(2)
    drained = phase(draining, "a:1", "drained")
    earlier = {"a:1": replace(drained.drains["a:1"], since_ms=NOW - 9)}
    restarting = after(
        of_roll(3, "restarting", 2, BEGUN, "a:1"), intents=replace(drained, drains=earlier)
    )
    assert restarting.moves_nothing == {"a:1"}
    assert restarting.drains["a:1"].since_ms == NOW  # earlier restarts are not the roll's
    back = after(of_roll(4, "restarted", 3, BEGUN, "a:1"), intents=restarting)
    assert not back.drains
    assert [one.state for one in back.ended] == ["done"]
    early = after(of_roll(5, "end", 4, BEGUN), intents=back)
    assert (early.roll, early.ended[-1].state) == (None, "cancelled")
    assert early.ended[-1].phases == {"a:1": "restarted", "b:1": "waiting"}
    end = after(of_roll(5, "end", 4, BEGUN), intents=phase(back, "b:1", "restarted"))
    assert end.ended[-1].state == "done"


def test_who_ends_a_roll_second_learns_who_was_first() -> None:
    ended = after(BEGUN, replace(of_roll(2, "end", 1, BEGUN), by="Bo", reason="next week"))
    late = accept(ended, FLEET, of_roll(3, "end", 2, BEGUN), NOW)
    assert isinstance(late, IntentRefusal)
    assert late.text == "the roll of Ann (new disks) has ended: Bo ended it: next week"


def test_a_record_about_a_roll_that_is_long_gone_is_named_in_words() -> None:
    for record, words in (
        (of_roll(2, "end", 0, BEGUN), "end the roll"),
        (of_roll(2, "restarted", 0, BEGUN, "a:1"), "go on after the restart of a:1"),
        (of_roll(2, "drain", 0, BEGUN, "a:1"), "drain a:1"),
    ):
        judged = accept(NO_INTENTS, FLEET, record, NOW)
        assert isinstance(judged, IntentRefusal)
        assert judged.text == f"the record to {words} is about a roll that is not active"


def test_records_of_a_roll_that_are_refused() -> None:
    rolling = after(BEGUN)
    assert code(roll(2, 0, "c:1"), rolling) == "another-roll"
    assert code(of_roll(2, "halt", 0, BEGUN)) == "no-such-roll"
    assert code(of_roll(2, "drain", 0, BEGUN, "c:1"), rolling) == "not-in-roll"
    assert code(drain(2, 0, "a:1"), rolling) == "part-of-roll"
    assert code(of_roll(2, "restarting", 0, BEGUN, "a:1"), rolling) == "wrong-phase"
    assert code(of_roll(2, "restarted", 0, BEGUN, "a:1"), rolling) == "wrong-phase"
    draining = after(of_roll(2, "drain", 0, BEGUN, "a:1"), intents=rolling)
    assert code(of_roll(3, "drain", 0, BEGUN, "b:1"), draining) == "too-many-unavailable"
    assert code(of_roll(3, "drain", 0, BEGUN, "a:1"), draining) == "already-drained"
    assert code(undrain(3, 0, "a:1"), draining) == "part-of-roll"
    assert code(roll(3, 0, "a:1"), after(drain(2, 0, "a:1"))) == "already-drained"
    assert code(roll(3, 0, "b:1"), after(drain(2, 0, "c:1"))) == "another-drain"
    assert after(drain(2, 0, "c:1", together=True), BEGUN).roll is not None
    assert code(drain(2, 0, "c:1"), rolling) == "another-roll"
    beside = after(drain(2, 0, "c:1", together=True), intents=rolling)
    both = after(of_roll(3, "drain", 0, BEGUN, "a:1"), intents=beside)
    assert both.drains.keys() == {"a:1", "c:1"}
    halted = after(of_roll(2, "halt", 0, BEGUN), drain(3, 0, "c:1"), intents=rolling)
    resumed = after(of_roll(4, "resume", 0, BEGUN), intents=halted)
    assert code(of_roll(5, "drain", 0, BEGUN, "a:1"), resumed) == "another-drain"
    given_up = after(undrain(3, 0, "a:1", roll=BEGUN.id), intents=draining)
    assert given_up.roll is not None
    assert given_up.roll.phases["a:1"] == "waiting"


def test_a_halted_roll_waits_for_resume() -> None:
    halted = after(BEGUN, of_roll(2, "drain", 1, BEGUN, "a:1"), of_roll(3, "halt", 2, BEGUN))
    assert halted.roll is not None
    assert halted.roll.halted == "new disks"
    assert halted.moves_nothing == {"a:1"}
    assert code(of_roll(4, "drain", 3, BEGUN, "b:1"), halted) == "roll-halted"
    resumed = after(of_roll(4, "resume", 3, BEGUN), intents=halted)
    assert resumed.moves_nothing == frozenset()
    ended = after(of_roll(5, "end", 3, BEGUN), intents=halted)
    assert (ended.roll, ended.drains) == (None, {})


@pytest.mark.parametrize(
    "intents",
    [after(drain(1, 0, "a:1")), after(BEGUN), after(intent(1, "split", 0, bundle=BUNDLE))],
    ids=["drain", "roll", "split"],
)
def test_a_command_judges_by_the_statuses_of_a_round(intents: Intents) -> None:
    again = intents_of_statuses(statuses(intents))
    records = (drain(2, 0, "a:1"), drain(2, 0, "b:1"), undrain(2, 0, "b:1"), roll(2, 0, "b:1"))
    for record in (*records, intent(2, "move", 0, bundle=BUNDLE)):
        judged = [accept(one, FLEET, record, NOW) for one in (again, intents)]
        mine, theirs = (one if isinstance(one, IntentRefusal) else None for one in judged)
        assert mine == theirs


ENGINE = Engine(EngineSettings())
BROKERS = ("a:1", "b:1", "c:1")


def a_pass(seconds: float) -> list[TelemetryRecord]:
    return [*(report(name, seconds) for name in BROKERS), sweep(seconds + 1, *BROKERS)]


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
    passes = [fold_all(ENGINE, a_pass(60 * minute), store) for minute in range(1, 63)]
    shown = [len(rounds(events)[0].intents) for events in passes]
    assert (shown[58], shown[-1]) == (1, 0)
    assert store.get_cluster().intents == NO_INTENTS


def test_a_round_has_all_that_ended_since_the_last_one_and_fifty_of_before() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, a_pass(0), store)
    refused = [drain(at, 10, "no:1") for at in range(1, 81)]
    passes = [fold_all(ENGINE, lines, store) for lines in ([*refused, *a_pass(60)], a_pass(120))]
    assert [len(rounds(events)[-1].intents) for events in passes] == [80, 50]


def test_a_split_finds_its_children_among_many_that_have_ended() -> None:
    ended = tuple(
        status_of_refused(drain(at, 10, "no:1"), NOW, text="x", advice="x") for at in range(80)
    )
    cut = AskedSplit(children={BUNDLE: ended[0].id})
    split = Asked("1", "t/ns/0x00000000_0x80000000", None, "anna", "x", NOW, NOW, cut=cut)
    intents = forget_old_intents(Intents(asked={split.bundle: split}, ended=ended), NOW, 0, NOW + 1)
    assert intents.ended == (ended[0], *ended[-50:])


def test_the_time_of_an_intent_moves_nothing() -> None:
    store = InMemoryStore()
    fold_all(ENGINE, a_pass(0), store)
    clock = store.get_cluster().clock
    for number, seconds in enumerate((250, -250, 400, -400)):
        fold_all(ENGINE, [drain(number, seconds, f"x{number}:1")], store)
    assert store.get_cluster().clock == clock
    found = rejections(fold_all(ENGINE, [drain(9, 400, "a:1"), drain(9, -400, "a:1")], store))
    assert [one.code for one in found] == ["clock-ahead", "clock-behind"]
    assert "correct the clock of the machine that wrote it" in found[0].text
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
    assert "[too-many-intents]" in rejections(events)[-1].text
    assert (len(intents.seen), len(intents.ended)) == (999, 999)
    shown = [len(rounds(fold_all(ENGINE, a_pass(at), store))[0].intents) for at in (60, 120)]
    assert shown == [999, 50]
