"""Whose clock is right where producers disagree, and how a round names those that are wrong."""

from dataclasses import replace

import pytest

from strategies.cluster.budget import Spent
from strategies.cluster.cluster_state import (
    Clock,
    ClusterState,
    InFlight,
    InMemoryStore,
    Order,
    Rehearsal,
)
from strategies.cluster.model import TelemetryRecord, Tombstone
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory
from strategies.errors import SettingsError
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.producer_votes import count_stray
from strategies.settings import RoundSettings
from strategies.shedding.steady.memory_format import Episode, RecentMove
from tests.world.telemetry import T0, bundle, fold_all, outcome, rejections, report, rounds, sweep


def engine(**settings: int) -> Engine:
    return Engine(EngineSettings(strategy="threshold", round=RoundSettings(**settings)))


def raw(minutes: range, **leads: float) -> list[TelemetryRecord]:
    """Brokers a, b, c report twice a minute, each by its own clock."""
    return [
        report(f"{name}:1", 30 * half + i + leads.get(name, 0), 20 + half % 30 + i)
        for half in range(minutes.start * 2, minutes.stop * 2)
        for i, name in enumerate("abc")
    ]


def test_a_repaired_clock_brings_its_broker_back_at_once() -> None:
    events = fold_all(engine(), [*raw(range(4)), *raw(range(4, 10), a=240), *raw(range(10, 14))])
    assert [set(one.brokers) for one in rounds(events)[-2:]] == [{"a:1", "b:1", "c:1"}] * 2
    assert not rejections(events)


def test_brokers_that_died_do_not_vote_for_an_earlier_time() -> None:
    """By the late clock of `d`, the last reports of `b` and `c` would be fresh."""
    before = [(name, 30 * i + n, 20 + i) for i in range(10) for n, name in enumerate("abc")]
    after = [
        (name, 30 * i + n, 20 + i) for i in range(10, 16) for name, n in (("d", -128), ("a", 3))
    ]
    reports = [report(f"{name}:1", seconds, cpu) for name, seconds, cpu in (*before, *after)]
    closed = rounds(fold_all(engine(), reports))
    assert [one.ts for one in closed] == sorted(one.ts for one in closed)
    assert closed[-1].ts - T0 >= 390_000


@pytest.mark.heavy
def test_more_than_two_thousand_brokers_go_on_together_after_a_pause() -> None:
    names = [f"b{i}:1" for i in range(2_100)]
    cycles = [
        [report(name, start + i / 100, 20 + start) for i, name in enumerate(names)]
        for start in (0, 60, 200)
    ]
    last = rounds(fold_all(engine(), [record for cycle in cycles for record in cycle]))[-1]
    assert last.ts - T0 >= 200_000
    assert len(last.brokers) == len(names)


def one_pass(number: int, seconds: float) -> list[TelemetryRecord]:
    return [
        report("a:1", seconds, 20 + number),
        report("b:1", seconds + 1, 30 - number),
        replace(sweep(seconds + 2, "a:1", "b:1"), sweep=number),
    ]


@pytest.mark.parametrize("lead", [100, 240])
def test_an_executor_that_is_ahead_moves_no_time_and_its_outcome_counts(lead: int) -> None:
    passes = [record for i in range(4) for record in one_pass(i + 1, 60 * i)]
    late = outcome("id", "t/ns/0x00000000_0x10000000", 60 * 2 + 3 + lead, "applied")
    events = fold_all(engine(), [*passes[:9], late, *passes[9:]])
    assert not rejections(events)
    last = rounds(events)[-1]
    assert last.brokers == ("a:1", "b:1")
    skip = next(one for one in last.skips if one.code == "clock-ahead")
    assert (skip.subject, skip.evidence["producer"]) == ("cluster", "executor")
    assert skip.text.startswith("the executor: its clock is ")
    assert skip.text.endswith(" s ahead of the cluster's time: check it"), (
        "its clock says nothing about that of a broker"
    )


def test_a_broker_that_withdraws_its_figures_with_a_leading_clock_votes_again_once_repaired() -> (
    None
):
    gone = Tombstone("c", "c:1", T0 + (120 + 150) * 1000)
    events = fold_all(engine(), [*raw(range(2)), gone, *raw(range(2, 5))])
    assert rounds(events)[-1].brokers == ("a:1", "b:1", "c:1")
    assert not rejections(events)


def test_a_withdrawal_of_long_ago_is_rejected_with_its_own_time() -> None:
    old = Tombstone("c", "c:1", T0 - 3_600_000)
    (rejection,) = rejections(fold_all(engine(), [*raw(range(2)), old, *raw(range(2, 3))]))
    assert (rejection.code, rejection.record) == ("clock-behind", old)


def test_a_collector_whose_clock_was_set_back_goes_on_with_its_next_pass() -> None:
    times = (0, 60, 120 + 240, 180, 240, 300)
    passes = [one_pass(number, seconds) for number, seconds in enumerate(times, 1)]
    events = fold_all(engine(), [record for each in passes for record in each])
    assert [(one.ts - T0) // 1000 for one in rounds(events)] == [2, 62, 361, 242, 302]
    assert [one.stale for one in rounds(events)][3:] == [{}, {}]
    assert [one.code for one in rejections(events)] == ["out-of-order"] * 2 + ["clock-behind"]


HOURS = 2 * 3_600


def steady_pass(number: int, seconds: float, hot: float, cold: float) -> list[TelemetryRecord]:
    """A pass of the collector; the figures differ from pass to pass, as measured ones do."""
    wobble = 0.1 * (number % 2)
    return [
        report("a:1", seconds, hot + wobble, {bundle(at): hot / 12 for at in range(12)}),
        report("b:1", seconds + 1, cold + wobble, {bundle(at): cold / 12 for at in range(12, 24)}),
        replace(sweep(seconds + 2, "a:1", "b:1"), sweep=number),
    ]


@pytest.mark.heavy
def test_after_the_collectors_clock_went_back_a_gap_is_seen_as_soon_as_in_a_new_cluster() -> None:
    store, running = InMemoryStore(), Engine(EngineSettings(strategy="steady"))
    even = [steady_pass(at, 60 * at, 40, 40) for at in range(1, 31)]
    uneven = [steady_pass(at, 60 * at - HOURS, 80, 20) for at in range(31, 41)]
    fold_all(running, [record for one in even for record in one], store)
    events = fold_all(running, [record for one in uneven for record in one], store)
    acting = [one.ts for one in rounds(events) if one.state and one.state.code == "acting"]
    assert acting
    assert acting[0] <= T0 + (60 * 36 - HOURS) * 1000


def test_after_the_collectors_clock_went_back_nothing_is_in_the_future() -> None:
    """What lasts for a time would last longer by as much as the clock went back."""
    running, store = Engine(EngineSettings(strategy="steady")), InMemoryStore()
    for at in range(1, 4):
        fold_all(running, steady_pass(at, 60 * at, 40, 40), store)
    late, back = T0 + 182_000, T0 + (240 - HOURS) * 1000 + 2_000
    move = InFlight("id", "a:1", "b:1", late, late + 300_000, 0.1)
    order = Order("id", late, late + 300_000, 5.0)
    early = Spent(back - 60_000, 1, 1.0)
    recent = RecentMove(bundle(0), "a:1", "b:1", late, 1.0, 1.0, 0.1, 0.1)
    episode = Episode(began_at_ms=late, last_at_ms=late, rests_until_ms=late + 9_000)
    state = replace(
        store.get_cluster(),
        in_flight={bundle(0): move},
        cooling={bundle(0): late, bundle(1): back - 1},
        advised={bundle(2): late},
        orders={bundle(0): order},
        rehearsed={"other": Rehearsal(bundle(3), order, move)},
        spent=(early, Spent(late - 60_000, 1, 10.0), Spent(late, 2, 30.0)),
        memory=ClusterMemory(hits=2, moves=(recent,), episode=episode),
    )
    store.put_cluster(state)
    one = store.get_broker("a:1")
    assert one is not None
    memory = replace(one.memory, gave_at_ms=late, ewma=0.4)
    store.put_broker(replace(one, judged_after_ms=late, memory=memory))
    running.fold(replace(sweep(242 - HOURS, "a:1", "b:1"), sweep=4), store)
    state, broker = store.get_cluster(), store.get_broker("a:1")
    assert state.cooling == {bundle(0): back, bundle(1): back - 1}
    assert state.advised == {bundle(2): back}
    assert state.spent == (early, Spent(back, 3, 40.0))
    assert state.memory == ClusterMemory(hits=2)
    assert broker is not None
    assert broker.judged_after_ms == back
    assert broker.memory == BrokerMemory(ewma=0.4, gave_at_ms=back)
    # Executors carry out a command that is at most five minutes ahead of them.
    until = back + 600_000
    assert state.in_flight == {bundle(0): replace(move, issued_at_ms=back, expires_at_ms=until)}
    assert state.orders == {bundle(0): replace(order, issued_at_ms=back, expires_at_ms=until)}
    (rehearsal,) = state.rehearsed.values()
    assert rehearsal.order == state.orders[bundle(0)]
    assert rehearsal.flight == state.in_flight[bundle(0)]


def test_two_brokers_that_disagree_prove_nothing_move_nothing_and_are_both_to_be_checked() -> None:
    records = [record for record in raw(range(12), a=240) if getattr(record, "broker", "") != "c:1"]
    last = rounds(fold_all(engine(), records))[-1]
    assert len(last.brokers) == 1
    codes = [skip.code for skip in last.skips]
    assert codes == ["clock-behind", "too-few-brokers"] or "clock-ahead" in codes
    assert "two brokers alone do not show which clock is wrong" in next(iter(last.stale.values()))


def test_the_only_broker_that_still_reports_after_a_pause_is_followed() -> None:
    alone = [report("a:1", 240 + 200 + 30 * i, 20 + i) for i in range(20)]
    events = fold_all(engine(), [*raw(range(4)), *alone])
    assert rounds(events)[-1].ts - T0 > 900_000


def test_settings_that_take_a_pause_for_a_wrong_clock_are_refused() -> None:
    said = r"round.stale_after_ms: 400000 is more than round.max_clock_jump_ms \(300000\)"
    with pytest.raises(SettingsError, match=said):
        engine(stale_after_ms=400_000)


@pytest.mark.parametrize(("live", "most"), [(3, 1_000), (1_100, 1_100)])
def test_names_without_end_that_stray_leave_the_newest_and_room_for_every_broker(
    live: int, most: int
) -> None:
    state, store = ClusterState(clock=Clock(T0), round=1, live=live), InMemoryStore()
    names = [f"b{number}:1" for number in range(1_200)]
    for name in names:
        state = count_stray(report(name, 240, 20), state, store, RoundSettings(), used=True)
    assert list(state.strays) == names[-most:]
