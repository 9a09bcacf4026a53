"""Adjusts a cluster's state when its time jumps.

When the time goes back, no time in the state may be later than it. When a cluster comes back after
more than `round.forget_cluster_after_days`, its measurements and memories are out of date, and are
forgotten.

That duration is measured in the cluster's own time. Records after such a gap depend only on the
state that `remains` returns. So a store may drop the rest during the gap, and all later output is
the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from strategies.cluster.budget import merge_later_entries
from strategies.cluster.cluster_state import (
    BrokerState,
    ClusterState,
    InFlight,
    Order,
    StateStore,
    note_name,
    read_note,
)
from strategies.cluster.packed_records import pack_record
from strategies.cluster.remembered_intents import (
    Answers,
    Intents,
    move_intents_back,
)
from strategies.cluster.rival_state import move_rivals_back
from strategies.cluster.strategy_memory import NO_EPISODE
from strategies.executor.admission import MOST_AHEAD_MS
from strategies.settings import RoundSettings

DAY_MS = 86_400_000

_Command = TypeVar("_Command", InFlight, Order)


def forget_everything_timed(store: StateStore) -> None:
    """Removes, after the log's time has gone back, everything with times of the old clock, which
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
            intents=move_intents_back(state.intents, now_ms),
            # The hourly budget is a guarantee. The age of these moves is unknown, so they count as
            # moves of now.
            spent=tuple(replace(entry, ts=now_ms) for entry in state.spent),
            rivals=move_rivals_back(state.rivals, now_ms),
            bulkhead=state.bulkhead,
        )
    )


def set_later_times_to_now(store: StateStore) -> None:
    """Sets, after the collector's clock has gone back, all later times in the state to now."""
    state = store.get_cluster()
    now_ms = state.now_ms
    for broker in store.brokers():
        store.put_broker(_broker_at(broker, now_ms))
        note = read_note(broker.broker, store)
        if note is not None and note.ts >= now_ms:  # newer notes are to count
            packed = pack_record(replace(note, ts=now_ms - 1))
            store.put_table(note_name(broker.broker), packed)
    store.put_cluster(
        replace(
            _moves_at(state, now_ms),
            strays={},
            trailing={},
            overtaken={},
            intents=move_intents_back(state.intents, now_ms),
            gone=_times_at(state.gone, now_ms),
            rivals=move_rivals_back(state.rivals, now_ms),
            pauses=(),
        )
    )


def forget_report_times(broker: BrokerState) -> BrokerState:
    """Removes the times of a broker's reports, so that its next report counts as new, whatever time
    it has.
    """
    return replace(
        broker, reported_at_ms=-1, bundles_at_ms=-1, sampled_at_ms=-1, digest="", bundles_digest=""
    )


def _broker_at(broker: BrokerState, now_ms: int) -> BrokerState:
    """Returns a broker after the time went back to `now_ms`, without its samples of load, because
    newer ones would count as late.
    """
    memory, gave_at_ms = broker.memory, broker.memory.gave_at_ms
    return replace(
        forget_report_times(broker),
        judged_after_ms=min(broker.judged_after_ms, now_ms),
        memory=replace(
            memory, gave_at_ms=None if gave_at_ms is None else min(gave_at_ms, now_ms), history=None
        ),
    )


def _moves_at(state: ClusterState, now_ms: int) -> ClusterState:
    """Returns the state after the time went back to `now_ms`: later times of commands and limits
    become now, and no strategy waits for samples after its moves any more.
    """
    return replace(
        state,
        in_flight={bundle: _command_at(move, now_ms) for bundle, move in state.in_flight.items()},
        cooling=_times_at(state.cooling, now_ms),
        advised=_times_at(state.advised, now_ms),
        orders={bundle: _command_at(order, now_ms) for bundle, order in state.orders.items()},
        rehearsed={
            id_: replace(
                rehearsal,
                order=_command_at(rehearsal.order, now_ms),
                flight=None if rehearsal.flight is None else _command_at(rehearsal.flight, now_ms),
            )
            for id_, rehearsal in state.rehearsed.items()
        },
        spent=merge_later_entries(state.spent, now_ms),
        memory=replace(state.memory, moves=(), episode=NO_EPISODE),
    )


def _times_at(times: Mapping[str, int], now_ms: int) -> dict[str, int]:
    return {name: min(ts, now_ms) for name, ts in times.items()}


def _command_at(command: _Command, now_ms: int) -> _Command:
    """Sets the time of a command to now if it is later. It is under way as long as an executor may
    carry it out: executors refuse commands further ahead of their clock than MOST_AHEAD_MS.
    """
    latest = now_ms + MOST_AHEAD_MS + (command.expires_at_ms - command.issued_at_ms)
    return replace(
        command,
        issued_at_ms=min(command.issued_at_ms, now_ms),
        expires_at_ms=min(command.expires_at_ms, latest),
    )


def forget_after_ms(settings: RoundSettings) -> int:
    """Returns the time without records (ms) after which a cluster is forgotten; 0 = never."""
    return settings.forget_cluster_after_days * DAY_MS


def remains(state: ClusterState) -> ClusterState:
    """Returns the state of a forgotten cluster: the number of its last round, so that ids of
    commands never repeat; its time; the newest policies, because a collector publishes them once;
    the requests of operators; and the records over its quota that are not reported yet. Idempotent.

    A cluster without a round stays as it is: its first records, at most 256, wait for others.
    """
    if state.early is not None or state.clock is None:
        return state
    return ClusterState(
        clock=state.clock,
        early=None,
        round=state.round,
        live=state.live,
        voters=state.voters,
        policies=state.policies,
        intents=_keep_requests(state.intents),
        bulkhead=state.bulkhead,
    )


def is_forgotten(state: ClusterState) -> bool:
    """True if a cluster that had rounds has only the state that `remains` returns. It may have
    strays: producers whose time is not believed yet.
    """
    return state.early is None and replace(remains(state), strays=state.strays) == state


def can_be_forgotten(state: ClusterState, line_ms: int) -> bool:
    """True if there is something to forget and the cluster's time is at most `line_ms`."""
    if state.early is not None or state.clock is None or is_forgotten(state):
        return False
    return state.clock.now_ms <= line_ms


def forget(state: ClusterState, store: StateStore) -> ClusterState:
    """Removes a cluster's brokers from the store. Returns the state that remains."""
    forget_brokers(state, store)
    return remains(state)


def forget_brokers(state: ClusterState, store: StateStore) -> None:
    """Removes all brokers, and the notes about them and about brokers that have left."""
    names = [broker.broker for broker in store.brokers()]
    for name in names:
        store.remove_broker(name)
    for name in [*names, *state.gone]:
        store.remove_table(note_name(name))


def begin_again_if_away(last_ms: int, store: StateStore, settings: RoundSettings) -> None:
    """Forgets a cluster that has come back after more than the setting. `last_ms`: its time before.
    Until the next round counts its brokers, a majority of as many as it had moves the time.
    """
    state, after_ms = store.get_cluster(), forget_after_ms(settings)
    if after_ms > 0 and state.now_ms - last_ms > after_ms:
        rest = forget(state, store)
        rest = replace(rest, round_at_ms=state.now_ms, voters=rest.live, live=0)
        store.put_cluster(rest)


def _keep_requests(intents: Intents) -> Intents:
    """Returns the intents without what rounds have measured of drains."""
    drains = {
        broker: replace(
            drain,
            seen=(),
            gone=(),
            answers=Answers(),
            left=None,
            total=None,
            left_ms=None,
            error_ms=None,
        )
        for broker, drain in intents.drains.items()
    }
    return replace(intents, drains=drains)
