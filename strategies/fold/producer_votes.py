"""Decides by majority which clock is right when producers disagree; each producer has one vote.

Brokers that publish their own reports stamp them with their own clocks; the collector stamps all
its records with one clock. A producer *strays* if its newest record is further from the cluster's
time than half of `round.stale_after_ms`. The cluster's time moves when more than half of the
producers stray. A record votes for an earlier time only if it is newer than all earlier records of
its producer, so a part of the log that is delivered twice moves nothing.

Between two records of a clock that runs ahead, the cluster's time is that of the first one. A
report with the right time that arrives in between may be near enough, and its broker does not
stray, although the second record leaves it far behind. `overtaken` keeps these brokers: they vote
for an earlier time as soon as another producer does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from strategies.cluster.cluster_state import (
    COLLECTOR,
    EXECUTOR,
    BrokerState,
    Clock,
    ClusterState,
    StateStore,
    Stray,
    quick_replace,
    tolerance_of,
)
from strategies.cluster.model import (
    LoadReport,
    OutcomeReport,
    Policies,
    Rejection,
    Sweep,
    TelemetryRecord,
    Tombstone,
)
from strategies.fold.time_jumps_and_forgetting import (
    begin_again_if_away,
    forget_everything_timed,
    forget_report_times,
    set_later_times_to_now,
)
from strategies.settings import RoundSettings

#: Maximum number of strays in a state, unless the last round had more brokers: a log may contain
#: any number of invented names.
_STRAYS_AT_MOST = 1_000
#: Minimum number of records of one producer in a row that show that no other one sends any.
_ALONE = 5
ClockVerdict = Literal["believed", "leads", "ahead", "behind", "moved-on", "moved-back"]


def check_time(
    record: TelemetryRecord, store: StateStore, settings: RoundSettings
) -> tuple[TelemetryRecord, Rejection | None]:
    """Compares a record's time with the cluster's, and moves the cluster's time if it has to.
    Returns the record in the form to apply, and its rejection if it must not be applied.
    """
    state = store.get_cluster()
    clock = state.clock
    assert clock is not None
    if isinstance(record, Sweep) and _went_back(record, state, store, settings):
        return record, _accept_set_back(record, state, clock.now_ms, store)
    state, verdict = _judge_time(record, state, clock, store, settings)
    store.put_cluster(state)
    if verdict == "moved-back":
        forget_everything_timed(store)
    if verdict == "moved-on":
        begin_again_if_away(clock.now_ms, store, settings)
    if verdict in ("ahead", "behind"):
        return record, clock_rejection(record, clock.now_ms, verdict)
    return _remove_lead(record, clock.now_ms) if verdict == "leads" else record, None


def _judge_time(
    record: TelemetryRecord,
    state: ClusterState,
    clock: Clock,
    store: StateStore,
    settings: RoundSettings,
) -> tuple[ClusterState, ClockVerdict]:
    """Returns the state with the new time, and the verdict on the record."""
    tolerance = tolerance_of(settings)
    next_clock, verdict = judge_clock(
        clock,
        record.ts,
        settings.max_clock_jump_ms,
        settings.clock_recovery_ms,
        tolerance_ms=tolerance,
        silence_ms=settings.stale_after_ms,
    )
    distance = abs(record.ts - clock.now_ms)
    if distance <= tolerance:
        state = _drop_stray(record, state, store)
        trailing, overtaken = _find_trailing(record, state, store, tolerance)
        state = quick_replace(state, clock=next_clock, trailing=trailing, overtaken=overtaken)
        return state, verdict
    if verdict == "moved-on":
        state = _move_time(state, record.ts, settings)
    elif verdict != "moved-back":
        used = distance <= settings.max_clock_jump_ms
        state = count_stray(record, state, store, settings, used=used)
        if verdict != "ahead":
            majority_state = _follow_majority(record, state, store, settings)
            if majority_state is not None:
                return majority_state, "believed"
    return replace(state, clock=next_clock), verdict


def judge_clock(
    clock: Clock,
    ts: int,
    jump_ms: int,
    recovery_ms: int,
    *,
    tolerance_ms: int | None = None,
    silence_ms: int = 0,
) -> tuple[Clock, ClockVerdict]:
    """Returns the clock after a record stamped `ts`, and the verdict on that record. One wrong
    clock can neither stop the cluster's time nor advance it. All durations in ms.

    * A record further than `jump_ms` from the time is "ahead" or "behind", and not believed. If
      only such records arrive, in ascending order and over `recovery_ms`, the log's time has really
      moved (an outage, a repaired clock), and the clock adopts it: "moved-on", "moved-back".
    * A record that leads by more than `tolerance_ms` (None = `jump_ms`) "leads": it is used, but
      the clock follows it only when most producers agree, or when no other producer has sent a
      record for `silence_ms`.
    * All others are "believed".
    """
    lead = ts - clock.now_ms
    if -jump_ms <= lead <= (jump_ms if tolerance_ms is None else tolerance_ms):
        return Clock(max(clock.now_ms, ts)), "believed"
    run_from, run_to = clock.run_from_ms, clock.run_to_ms
    continues = run_from is not None and run_to is not None and run_to <= ts <= run_to + jump_ms
    started = run_from if continues and run_from is not None else ts
    count = clock.run + 1 if continues else 1
    leads = 0 < lead <= jump_ms
    began_near = 0 < started - clock.now_ms <= jump_ms
    if ts - started >= (silence_ms if began_near else recovery_ms) and (
        count >= _ALONE or not began_near
    ):
        return Clock(ts), "moved-on" if lead > 0 else "moved-back"
    waiting = replace(clock, run_from_ms=started, run_to_ms=ts, run=count)
    return waiting, "leads" if leads else "ahead" if lead > 0 else "behind"


def producer_of(record: TelemetryRecord) -> str:
    """Returns the producer whose clock stamped a record."""
    match record:
        case LoadReport() | Tombstone():
            return record.broker
        case OutcomeReport():
            return EXECUTOR
        case _:
            return COLLECTOR


def count_stray(
    record: TelemetryRecord,
    state: ClusterState,
    store: StateStore,
    settings: RoundSettings,
    *,
    used: bool,
) -> ClusterState:
    """Counts the record's producer as a stray; a late or repeated record changes nothing. `used`:
    the record is near enough for a round to use its figures.
    """
    name, lead = producer_of(record), record.ts - state.now_ms
    before, broker = state.strays.get(name), store.get_broker(name)
    news = lead > 0 or _is_news(record, before, broker, state)
    if not news and (
        broker is None or broker.newest_report_ms >= state.now_ms - settings.stale_after_ms
    ):
        return state
    is_used = used or (before is not None and before.used and (before.lead_ms > 0) == (lead > 0))
    has_vote = (
        before is not None or _newest_ms(broker) >= state.round_at_ms - settings.stale_after_ms
    )
    voters = state.voters + (0 if has_vote or name in (COLLECTOR, EXECUTOR) else 1)
    strays = {
        **{other: stray for other, stray in state.strays.items() if other != name},
        name: Stray(record.ts, lead, is_used, news),
    }
    return replace(
        state, strays=dict(list(strays.items())[-max(_STRAYS_AT_MOST, state.live) :]), voters=voters
    )


def _find_trailing(
    record: TelemetryRecord, state: ClusterState, store: StateStore, tolerance_ms: int
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Returns `trailing` and `overtaken` after a record near the cluster's time."""
    if record.ts > state.now_ms:
        behind = {name: ts for name, ts in state.trailing.items() if record.ts - ts > tolerance_ms}
        return {}, behind
    trailing = state.trailing
    if isinstance(record, LoadReport):
        broker = store.get_broker(record.broker)
        if _is_news(record, None, broker, state):
            trailing = {**trailing, record.broker: record.ts}
    return trailing, state.overtaken


def _follow_majority(
    record: TelemetryRecord, state: ClusterState, store: StateStore, settings: RoundSettings
) -> ClusterState | None:
    """Returns the state after the cluster's time has moved to that of the majority of producers;
    None while there is no majority.
    """
    now, tolerance = state.now_ms, tolerance_of(settings)
    leads = record.ts > now
    if producer_of(record) not in state.strays:
        return None
    agreeing = {
        name: stray.ts
        for name, stray in state.strays.items()
        if stray.news
        and (stray.lead_ms > 0) == leads
        and stray.heard_ms >= now - settings.stale_after_ms
        and name != EXECUTOR
    }
    if leads:
        agreeing = {
            name: ts
            for name, ts in agreeing.items()
            if now + tolerance < ts <= now + settings.max_clock_jump_ms
        }
    else:
        overtaken = {
            name: ts
            for name, ts in state.overtaken.items()
            if ts <= record.ts and store.get_broker(name) is not None
        }
        agreeing = {**overtaken, **agreeing}
    if not _is_majority(agreeing, record, state, store):
        return None
    # Strays may be on both sides, so the time nearest to the cluster's is the median producer's.
    middle = min(agreeing.values()) if leads else max(agreeing.values())
    newest = max(ts for ts in agreeing.values() if ts - middle <= tolerance)
    return _move_time(state, newest, settings)


def _move_time(state: ClusterState, now_ms: int, settings: RoundSettings) -> ClusterState:
    """Returns the state at another time. If that is earlier, the open round keeps its length. If
    it is later, the open round is due but not late, so that the other brokers can report first.
    """
    by = now_ms - state.now_ms
    round_at = (
        state.round_at_ms + by if by < 0 else max(state.round_at_ms, now_ms - settings.interval_ms)
    )
    strays = {
        name: stray
        for name, stray in state.strays.items()
        if abs(stray.ts - now_ms) > tolerance_of(settings)
    }
    return replace(
        state, clock=Clock(now_ms), strays=strays, trailing={}, overtaken={}, round_at_ms=round_at
    )


def _drop_stray(record: TelemetryRecord, state: ClusterState, store: StateStore) -> ClusterState:
    """Removes a stray that has sent a record near the cluster's time: its clock is repaired. If it
    is a broker whose clock was ahead, its times in the store go as well, so that its reports with
    the right time do not count as late.
    """
    name = producer_of(record)
    stray = state.strays.get(name)
    if stray is None:
        return state
    broker = store.get_broker(name)
    if broker is not None and stray.used and stray.lead_ms > 0 and _newest_ms(broker) >= record.ts:
        store.put_broker(forget_report_times(broker))
    return replace(
        state, strays={other: entry for other, entry in state.strays.items() if other != name}
    )


def _remove_lead(record: TelemetryRecord, now_ms: int) -> TelemetryRecord:
    """Sets the time of a leading record to now, because its own time would hide later records.
    Reports and sweeps keep their time.
    """
    match record:
        case OutcomeReport():
            return replace(record, ts=now_ms, outcome=replace(record.outcome, ts=now_ms))
        case Tombstone() | Policies():
            return replace(record, ts=now_ms)
        case _:
            return record


def count_voters(
    state: ClusterState, brokers: Iterable[BrokerState], now_ms: int, settings: RoundSettings
) -> ClusterState:
    """Counts, when a round closes, the brokers that have a vote until the next one."""
    oldest = now_ms - settings.stale_after_ms
    newest = {broker.broker: broker.newest_report_ms for broker in brokers}
    strays = {
        name: stray
        for name, stray in state.strays.items()
        if name in newest or stray.heard_ms >= oldest
    }
    recent = {name for name, ts in newest.items() if ts >= oldest} | {
        name for name, stray in strays.items() if stray.heard_ms >= oldest
    }
    return replace(state, strays=strays, voters=len(recent - {COLLECTOR, EXECUTOR}))


def _went_back(
    record: Sweep, state: ClusterState, store: StateStore, settings: RoundSettings
) -> bool:
    """True if a sweep proves that its collector's clock was set back: it is the next pass, its time
    is earlier, and none of its brokers has a record after the pass before.
    """
    if record.sweep != state.sweep + 1 or record.ts >= state.sweep_at_ms - tolerance_of(settings):
        return False
    return all(_newest_ms(store.get_broker(name)) <= state.sweep_at_ms for name in record.brokers)


def _accept_set_back(
    record: Sweep, state: ClusterState, now_ms: int, store: StateStore
) -> Rejection:
    """Moves the time back with the clock of the only collector; the open round keeps its length.
    Returns the rejection that reports it.
    """
    back_ms = now_ms - record.ts
    store.put_cluster(
        replace(
            state,
            clock=Clock(record.ts),
            round_at_ms=state.round_at_ms - back_ms,
            sweep_at_ms=record.ts,
            sweep=record.sweep,
            missing=dict(record.missing),
        )
    )
    set_later_times_to_now(store)
    text = (
        f"pass {record.sweep} is stamped {record.ts}, {back_ms / 1000:.0f} s before the "
        f"cluster's time, and pass {record.sweep - 1} was not: "
        "the collector's clock went back; its time counts from here on"
    )
    return Rejection("clock-behind", text, record)


def _newest_ms(broker: BrokerState | None) -> int:
    """Returns the time of the last report of a broker; -1 without one."""
    return -1 if broker is None else broker.newest_report_ms


def clock_rejection(record: TelemetryRecord, now_ms: int, verdict: str) -> Rejection:
    """Returns the rejection of a record that is `verdict` (ahead, behind) of the cluster's time."""
    distance = abs(record.ts - now_ms) / 1000
    text = (
        f"its time {record.ts} is {distance:.0f} s {verdict} of the cluster's {now_ms}: check "
        "the collector's clock; "
        "if the log's time has really moved, its records are accepted after 15 minutes without any "
        "other record"
    )
    return Rejection(f"clock-{verdict}", text, record)


def _is_news(
    record: TelemetryRecord, stray: Stray | None, broker: BrokerState | None, state: ClusterState
) -> bool:
    """True if a record of an earlier time is newer than all other records of its producer."""
    if isinstance(record, Sweep):
        return record.ts > state.sweep_at_ms
    if not isinstance(record, LoadReport):
        return False
    before = stray.ts if stray is not None and stray.lead_ms < 0 else -1
    return record.ts > max(_newest_ms(broker), before, state.gone.get(record.broker, -1))


def _is_majority(
    agreeing: Mapping[str, int], record: TelemetryRecord, state: ClusterState, store: StateStore
) -> bool:
    """True if the agreeing producers are more than half of the voters. These are the brokers; for a
    sweep they are its brokers and the collector.
    """
    if isinstance(record, Sweep):
        return 2 * len(agreeing.keys() & {COLLECTOR, *record.brokers}) > 1 + len(
            set(record.brokers)
        )
    brokers = agreeing.keys() - {COLLECTOR}
    if state.round > 0:
        return 2 * len(brokers) > max(state.voters, state.live)
    return 2 * len(brokers) > state.joined + (store.get_broker(producer_of(record)) is None)
