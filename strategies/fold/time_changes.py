"""Advances a cluster's time by a record, and adjusts the cluster's state when that time moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strategies.cluster.budget import no_later
from strategies.cluster.clock import Clock, ClockVerdict, judge_clock, tolerance_of
from strategies.cluster.intent_state import at_time
from strategies.cluster.load_history import Episode
from strategies.cluster.model import Event, Rejection, Sweep, TelemetryRecord
from strategies.cluster.rival_state import at_another_time
from strategies.cluster.state import ClusterState, InFlight, Order
from strategies.cluster.store import BrokerState, StateStore
from strategies.executor.admission import MOST_AHEAD_MS
from strategies.fold.owned import not_from_the_future
from strategies.fold.producer_votes import (
    followed,
    in_time,
    kept_pace,
    moved,
    returned,
    strayed,
    untimed,
)
from strategies.fold.quick_replace import quick_replace
from strategies.settings import RoundSettings

_Command = TypeVar("_Command", InFlight, Order)


def timed(
    record: TelemetryRecord,
    state: ClusterState,
    clock: Clock,
    store: StateStore,
    settings: RoundSettings,
) -> tuple[TelemetryRecord, ClusterState, ClockVerdict]:
    """The record in the form to use, the state with the new time, and whether the record is
    believed.
    """
    tolerance = tolerance_of(settings)
    judged, verdict = judge_clock(
        clock,
        record.ts,
        settings.max_clock_jump_ms,
        settings.clock_recovery_ms,
        tolerance_ms=tolerance,
        silence_ms=settings.stale_after_ms,
    )
    lead = record.ts - clock.now_ms
    if verdict == "moved-on":
        state = moved(state, record.ts, settings)
    if abs(lead) <= tolerance:
        state = kept_pace(record, returned(record, state, store), store, settings)
        return record, quick_replace(state, clock=judged), verdict
    if verdict in ("moved-on", "moved-back"):
        return record, quick_replace(state, clock=judged), verdict
    state = strayed(record, state, store, settings, used=abs(lead) <= settings.max_clock_jump_ms)
    other = None if verdict == "ahead" else followed(record, state, store, settings)
    if other is not None:
        return record, other, "believed"
    return (
        in_time(record, clock.now_ms) if verdict == "leads" else record,
        quick_replace(state, clock=judged),
        verdict,
    )


def forget_everything_timed(state: ClusterState, clock: Clock, store: StateStore) -> ClusterState:
    """The state after the log's time goes back, without all that carries times of the old clock,
    which would now be in the future. Round numbers continue.
    """
    known = [broker.broker for broker in store.brokers()]
    for name in known:
        store.remove_broker(name)
    for name in [*known, *state.gone]:
        store.remove_owned(name)
    return ClusterState(
        clock=clock,
        early=None,
        round=state.round,
        round_at_ms=clock.now_ms,
        joined=state.joined,
        voters=max(state.voters, state.live),
        policies=state.policies,
        intents=at_time(state.intents, clock.now_ms),
        # The hourly budget is a guarantee, not an estimate: the age of these moves is unknown, so
        # they count as made now.
        spent=tuple(replace(one, ts=clock.now_ms) for one in state.spent),
        rivals=at_another_time(state.rivals, clock.now_ms),
        bulkhead=state.bulkhead,
    )


def set_back(record: Sweep, state: ClusterState, clock: Clock, store: StateStore) -> list[Event]:
    """Accepts a pass of a collector whose clock went back; the open round keeps its length. What
    began at a later time counts as begun now.
    """
    for broker in store.brokers():
        store.put_broker(_broker_at(broker, record.ts))
    not_from_the_future([broker.broker for broker in store.brokers()], store, record.ts)
    back = clock.now_ms - record.ts
    store.put_cluster(
        replace(
            _moves_at(state, record.ts),
            clock=Clock(record.ts),
            strays={},
            trailing={},
            overtaken={},
            intents=at_time(state.intents, record.ts),
            gone={broker: min(ts, record.ts) for broker, ts in state.gone.items()},
            round_at_ms=state.round_at_ms - back,
            sweep_at_ms=record.ts,
            sweep=record.sweep,
            missing=dict(record.missing),
            rivals=at_another_time(state.rivals, record.ts),
            pauses=(),
        )
    )
    text = (
        f"pass {record.sweep} is stamped {record.ts}, {back / 1000:.0f} s before the "
        f"cluster's time, and pass {record.sweep - 1} was not: "
        "the collector's clock went back; its time counts from here on"
    )
    return [Rejection("clock-behind", text, record)]


def _broker_at(broker: BrokerState, now_ms: int) -> BrokerState:
    """The broker after the time went back to `now_ms`, without samples of load: newer ones would
    count as late.
    """
    memory, gave_at_ms = broker.memory, broker.memory.gave_at_ms
    return replace(
        untimed(broker),
        judged_after_ms=min(broker.judged_after_ms, now_ms),
        memory=replace(
            memory, gave_at_ms=None if gave_at_ms is None else min(gave_at_ms, now_ms), history=None
        ),
    )


def _moves_at(state: ClusterState, now_ms: int) -> ClusterState:
    """The state after the time went back to `now_ms`, with its commands and limits as of now at the
    latest, and without what a strategy was to learn of its moves from later samples.
    """
    return replace(
        state,
        in_flight={bundle: _command_at(one, now_ms) for bundle, one in state.in_flight.items()},
        cooling=_times_at(state.cooling, now_ms),
        advised=_times_at(state.advised, now_ms),
        orders={bundle: _command_at(one, now_ms) for bundle, one in state.orders.items()},
        rehearsed={
            id_: replace(
                one,
                order=_command_at(one.order, now_ms),
                flight=None if one.flight is None else _command_at(one.flight, now_ms),
            )
            for id_, one in state.rehearsed.items()
        },
        spent=no_later(state.spent, now_ms),
        memory=replace(state.memory, moves=(), episode=Episode()),
    )


def _times_at(times: Mapping[str, int], now_ms: int) -> dict[str, int]:
    return {name: min(ts, now_ms) for name, ts in times.items()}


def _command_at(one: _Command, now_ms: int) -> _Command:
    """The command counts as issued now at the latest, and is under way as long as an executor may
    carry it out: executors refuse what is further ahead of their clock.
    """
    latest = now_ms + MOST_AHEAD_MS + (one.expires_at_ms - one.issued_at_ms)
    return replace(
        one,
        issued_at_ms=min(one.issued_at_ms, now_ms),
        expires_at_ms=min(one.expires_at_ms, latest),
    )


def clock_rejection(record: TelemetryRecord, now_ms: int, verdict: str) -> Rejection:
    """The rejection of a record whose time is too far from the cluster's."""
    distance = abs(record.ts - now_ms) / 1000
    text = (
        f"its time {record.ts} is {distance:.0f} s {verdict} of the cluster's {now_ms}: check "
        "the collector's clock; "
        "if the log's time has really moved, its records are accepted after 15 minutes without any "
        "other record"
    )
    return Rejection(f"clock-{verdict}", text, record)
