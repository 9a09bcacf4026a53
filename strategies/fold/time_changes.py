"""Adjusts a cluster's state when its time goes back: nothing of it may be in the future."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strategies.cluster.budget import no_later
from strategies.cluster.intent_state import at_time
from strategies.cluster.memory import NO_EPISODE
from strategies.cluster.rival_state import at_another_time
from strategies.cluster.state import ClusterState, InFlight, Order
from strategies.cluster.store import BrokerState, StateStore
from strategies.executor.admission import MOST_AHEAD_MS
from strategies.fold.intents_and_notes import not_from_the_future
from strategies.fold.vanished_clusters import forget_brokers

_Command = TypeVar("_Command", InFlight, Order)


def forget_everything_timed(store: StateStore) -> None:
    """After the log's time has gone back: forgets all that carries times of the old clock, which
    would now be in the future. Round numbers continue.
    """
    state = store.get_cluster()
    now_ms = state.now_ms
    forget_brokers(state, store)
    store.put_cluster(
        ClusterState(
            clock=state.clock,
            early=None,
            round=state.round,
            round_at_ms=now_ms,
            joined=state.joined,
            voters=max(state.voters, state.live),
            policies=state.policies,
            intents=at_time(state.intents, now_ms),
            # The hourly budget is a guarantee, not an estimate: the age of these moves is unknown,
            # so they count as made now.
            spent=tuple(replace(one, ts=now_ms) for one in state.spent),
            rivals=at_another_time(state.rivals, now_ms),
            bulkhead=state.bulkhead,
        )
    )


def begin_nothing_later(store: StateStore) -> None:
    """After the collector's clock has gone back: what began at a later time counts as begun now."""
    state = store.get_cluster()
    now_ms = state.now_ms
    for broker in store.brokers():
        store.put_broker(_broker_at(broker, now_ms))
    not_from_the_future([broker.broker for broker in store.brokers()], store, now_ms)
    store.put_cluster(
        replace(
            _moves_at(state, now_ms),
            strays={},
            trailing={},
            overtaken={},
            intents=at_time(state.intents, now_ms),
            gone=_times_at(state.gone, now_ms),
            rivals=at_another_time(state.rivals, now_ms),
            pauses=(),
        )
    )


def untimed(broker: BrokerState) -> BrokerState:
    """The broker without the times of its reports: its next report counts as new, whatever time it
    carries.
    """
    return replace(
        broker, reported_at_ms=-1, bundles_at_ms=-1, sampled_at_ms=-1, digest="", bundles_digest=""
    )


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
        memory=replace(state.memory, moves=(), episode=NO_EPISODE),
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
