"""Applies commands and their outcomes to a cluster's state: resting bundles, moves under way, and
the hourly budget.

A dry run frees its bundle at once and returns its part of the budget. Another executor may still
carry out the same command. So the state keeps a dry run until no executor can do that any more, and
the real outcome counts, whether it arrives before or after the dry run (decision 0028).

Commands and outcomes, also of another epoch, show which moves of bundles are the rebalancer's own.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from strategies.cluster import cool_downs
from strategies.cluster.asked_by_hand import Asked
from strategies.cluster.budget import Spent, give_back
from strategies.cluster.cluster_state import (
    ClusterState,
    InFlight,
    Order,
    Rehearsal,
    StateStore,
    newest_entries,
)
from strategies.cluster.intent_records_and_states import IntentStateCode
from strategies.cluster.model import Command, Outcome, OutcomeReport
from strategies.cluster.move_cost import MeasuredPause, MoveCost
from strategies.cluster.remembered_intents import Answers, Intents, end_asked, with_asked
from strategies.cluster.rival_state import AGE_MS, MOST, ForeignMove, OwnMove, Rivals
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.fold.children_of_asked_splits import note_split
from strategies.round.round_input_and_digest import RoundResult
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, NOTHING

_T = TypeVar("_T")
#: Number of the newest moves whose pauses a state keeps.
_REMEMBERED = 64
#: Time (ms) after which all lists of bundles show a move: twice the age of a list.
_SHOWN_MS = 2 * AGE_MS
#: Number of commands for one bundle that a state keeps.
_PER_BUNDLE = 4
_EXPLAIN = "Do what the reason says, and ask again."


def learn_outcome(record: OutcomeReport, state: ClusterState, store: StateStore) -> ClusterState:
    """Returns the state after an outcome. A completed move makes source and destination wait for
    later reports (`BrokerState.judged_after_ms`, changed in the store); a move that did not happen
    frees its bundle.
    """
    outcome = record.outcome
    asked = state.intents.asked.get(outcome.bundle)
    if asked is not None and asked.command_id == outcome.command_id:
        state = _note_asked(state, asked, outcome)
    if state.intents.drains:
        move = state.in_flight.get(outcome.bundle)
        state = replace(state, intents=_note_answer(state.intents, outcome, move))
    state = replace(state, rivals=_note_outcome(state.rivals, outcome, record.ts))
    if outcome.status == "applied":
        pauses = add_pause(state.pauses, outcome.ts, outcome.command_id, outcome.cost)
        state = replace(state, pauses=pauses)
    if outcome.status == "dry-run":
        return _apply_dry_run(outcome, state)
    state = _drop_order(outcome, _undo_dry_run(outcome, state))
    move = state.in_flight.get(outcome.bundle)
    if move is None or move.command_id != outcome.command_id:
        return state
    if outcome.status in ("refused", "failed", "expired"):
        return replace(
            state,
            in_flight=_without_keys({outcome.bundle}, state.in_flight),
            cooling=_without_keys({outcome.bundle}, state.cooling),
        )
    destination = outcome.owner_after or move.destination
    for name in (move.source, destination):
        broker = store.get_broker(name) if name is not None else None
        if broker is not None:
            store.put_broker(
                replace(broker, judged_after_ms=max(broker.judged_after_ms, outcome.ts))
            )
    others = _without_keys({outcome.bundle}, state.in_flight)
    arrived = replace(move, destination=destination, arrived=True)
    return replace(state, in_flight={**others, outcome.bundle: arrived})


def _note_asked(state: ClusterState, asked: Asked, outcome: Outcome) -> ClusterState:
    """Applies the outcome of the command of what a person or a round asked for."""
    now_ms, advice = state.now_ms, _EXPLAIN if asked.is_by_hand else NEXT_ROUNDS
    how: IntentStateCode = "cancelled"
    if outcome.status in ("applied", "already-done"):
        if asked.action == "split":
            return note_split(state, asked)
        took = age(now_ms - asked.asked_ms)
        text, advice = f"{outcome.owner_after or 'another broker'} serves it after {took}", NOTHING
        how = "done"
    elif outcome.status == "dry-run":
        text = "the executor only says what it would do [dry-runs-only]"
        advice = "Start an executor with `--apply`, and ask again."
    else:
        what = "moved" if asked.action == "move" else "split"
        text = f"the executor has not {what} it: {outcome.reason or outcome.status}"
    intents = end_asked(state.intents, asked.bundle, now_ms, how, text=text[:300], advice=advice)
    return replace(state, intents=intents)


def _note_answer(intents: Intents, outcome: Outcome, move: InFlight | None) -> Intents:
    """Counts an executor's answer in the drain that moves the bundle. `move`: the move of that
    bundle under way, if any.
    """
    if move is None or move.command_id != outcome.command_id or move.source not in intents.drains:
        return intents
    drain = intents.drains[move.source]
    answers, owner = replace(drain.answers, expired=0), outcome.owner_after or outcome.owner_before
    if outcome.status != "dry-run" and owner not in (None, move.source):
        # Also of a refused command: the bundle had left before.
        answers = Answers()
        drain = replace(drain, gone=tuple(dict.fromkeys([*drain.gone, outcome.bundle])))
    elif outcome.status == "dry-run":
        answers = replace(answers, dry_runs=answers.dry_runs + 1)
    elif outcome.status in ("applied", "already-done"):
        answers = Answers()
    else:
        why = outcome.reason or outcome.status
        answers = replace(answers, refused=answers.refused + 1, last=why[:300])
    return replace(intents, drains={**intents.drains, move.source: replace(drain, answers=answers)})


def _note_outcome(rivals: Rivals, outcome: Outcome, ts: int) -> Rivals:
    """Adds an outcome of time `ts` to the evidence about moves. A command that is not carried out
    explains no move; a failed one may have unloaded its bundle.
    """
    commands = rivals.ours.get(outcome.bundle, ())
    own = next((command for command in commands if command.command_id == outcome.command_id), None)
    if outcome.status in ("refused", "expired", "dry-run"):
        if own is None or own.answered_ms is not None:
            return rivals
        return _set_commands(
            rivals, outcome.bundle, [command for command in commands if command is not own]
        )
    source = outcome.owner_before or (None if own is None else own.source)
    if source is None:
        return rivals
    moved = OwnMove(
        outcome.command_id,
        source,
        outcome.owner_after or (None if own is None else own.destination),
        min(ts - outcome.took_ms, ts if own is None else own.issued_ms),
        ts + _SHOWN_MS,
        ts,
        confirmed=outcome.status == "applied" and outcome.owner_after not in (None, source),
    )
    others = [command for command in commands if command is not own]
    rivals = _set_commands(rivals, outcome.bundle, [*others, moved][-_PER_BUNDLE:])
    return _drop_own_moves(rivals, outcome.bundle, moved)


def add_pause(
    pauses: tuple[MeasuredPause, ...], ts: int, command_id: str, cost: MoveCost
) -> tuple[MeasuredPause, ...]:
    """Adds the pause of a move to those of the newest moves. The result does not depend on the
    order of outcomes, nor on repeated ones. Where no first message was measured, the time without
    an owner counts.
    """
    pause_ms = cost.unowned_ms if cost.first_message_ms is None else cost.first_message_ms
    if pause_ms is None or cost.topics is None:
        return pauses
    pause = MeasuredPause(ts, command_id, cost.topics, pause_ms)
    return tuple(sorted({*pauses, pause})[-_REMEMBERED:])


def apply_commands(state: ClusterState, result: RoundResult, now_ms: int) -> ClusterState:
    """Returns the state after a round's commands."""
    in_flight, advised, orders = dict(state.in_flight), dict(state.advised), dict(state.orders)
    for command in result.commands:
        if command.action == "throttle":
            advised[command.bundle] = now_ms
            continue
        throughput = None
        if command.action != "split":
            throughput, load = result.throughputs[command.bundle], result.loads[command.bundle]
            in_flight[command.bundle] = InFlight(
                command.id, command.source, command.destination, now_ms, command.expires_at_ms, load
            )
        orders[command.bundle] = Order(command.id, now_ms, command.expires_at_ms, throughput)
    spent = (*state.spent, *([] if result.spent is None else [result.spent]))
    return replace(
        state,
        in_flight=in_flight,
        cooling=cool_downs.begin(state.cooling, result.commands, now_ms),
        advised=advised,
        orders=orders,
        spent=spent,
        rivals=note_commands(state.rivals, result.commands),
    )


def note_commands(rivals: Rivals, commands: Iterable[Command]) -> Rivals:
    """Adds a round's commands to the evidence about moves."""
    ours = dict(rivals.ours)
    for command in commands:
        if command.is_move:
            own = OwnMove(
                command.id,
                command.source,
                command.destination,
                command.issued_at_ms,
                command.expires_at_ms + _SHOWN_MS,
            )
            # At the end, because `newest_entries` drops entries from the front.
            ours[command.bundle] = (*ours.pop(command.bundle, ()), own)[-_PER_BUNDLE:]
    return replace(rivals, ours=newest_entries(ours, MOST))


def drop_unseen_moves(state: ClusterState) -> ClusterState:
    """Drops the moves that neither an outcome nor a report shows. At the end of a warm start no
    executor has their commands: their bundles no longer rest, the budget gets their part back, and
    the next round goes on with the children that rounds want to move.
    """
    unseen = {
        bundle: move for bundle, move in state.in_flight.items() if not (move.left or move.arrived)
    }
    spent = state.spent
    for bundle, move in unseen.items():
        order = state.orders.get(bundle)
        if order is not None and order.command_id == move.command_id:
            spent = give_back(spent, order.issued_at_ms, order.throughput or 0.0)
    again = (
        replace(move, state="asked", command_id="")
        for move in state.intents.asked.values()
        # A person's may be done, and the bundle elsewhere by now; that of a round is judged again.
        if move.action == "move" and not move.is_by_hand
    )
    return replace(
        state,
        intents=with_asked(state.intents, *again),
        in_flight=_without_keys(unseen, state.in_flight),
        cooling=_without_keys(unseen, state.cooling),
        orders=_without_keys(unseen, state.orders),
        spent=spent,
        dropped=False,
    )


def drop_finished_orders(state: ClusterState, now_ms: int) -> ClusterState:
    """Drops orders whose commands have expired and whose bundles neither rest nor move, and dry
    runs of commands that no executor can carry out in time any more.
    """
    orders = {
        bundle: order
        for bundle, order in state.orders.items()
        if bundle in state.cooling or bundle in state.in_flight or now_ms < order.expires_at_ms
    }
    rehearsed = {
        id_: rehearsal
        for id_, rehearsal in state.rehearsed.items()
        if now_ms < 2 * rehearsal.order.expires_at_ms - rehearsal.order.issued_at_ms
    }
    return replace(state, orders=orders, rehearsed=rehearsed)


def _apply_dry_run(outcome: Outcome, state: ClusterState) -> ClusterState:
    """Takes the command of a dry run back, unless it has a real outcome already or a report shows
    that its bundle has left.
    """
    bundle, order = outcome.bundle, state.orders.get(outcome.bundle)
    if order is None or order.command_id != outcome.command_id:
        return state
    flight = None
    if order.throughput is not None:
        flight = state.in_flight.get(bundle)
        if flight is None or flight.command_id != order.command_id or flight.left:
            return state
        state = replace(
            state,
            spent=give_back(state.spent, order.issued_at_ms, order.throughput),
            in_flight=_without_keys({bundle}, state.in_flight),
        )
    return replace(
        state,
        cooling=_without_keys({bundle}, state.cooling),
        orders=_without_keys({bundle}, state.orders),
        rehearsed={**state.rehearsed, order.command_id: Rehearsal(bundle, order, flight)},
    )


def _undo_dry_run(outcome: Outcome, state: ClusterState) -> ClusterState:
    """Restores the command of a dry run after another executor has carried it out.

    Executors then refuse a newer command for the same bundle. The bundle has no order any more, so
    that this refusal does not free the bundle that has just moved.
    """
    rehearsal = state.rehearsed.get(outcome.command_id)
    if (
        rehearsal is None
        or rehearsal.bundle != outcome.bundle
        or outcome.status not in ("applied", "already-done")
    ):
        return state
    if rehearsal.flight is not None:
        entry = Spent(rehearsal.order.issued_at_ms, 1, rehearsal.order.throughput or 0.0)
        state = replace(
            state,
            in_flight={**state.in_flight, rehearsal.bundle: rehearsal.flight},
            spent=(*state.spent, entry),
        )
    return replace(
        state,
        cooling=cool_downs.resume(state.cooling, rehearsal.bundle, rehearsal.order.issued_at_ms),
        orders=_without_keys({rehearsal.bundle}, state.orders),
        rehearsed=_without_keys({outcome.command_id}, state.rehearsed),
    )


def _drop_order(outcome: Outcome, state: ClusterState) -> ClusterState:
    """Removes the order of a command with a real outcome, so that a later dry run of the command
    frees nothing.
    """
    order = state.orders.get(outcome.bundle)
    if order is None or order.command_id != outcome.command_id:
        return state
    return replace(state, orders=_without_keys({outcome.bundle}, state.orders))


def _without_keys(keys: Collection[str], entries: Mapping[str, _T]) -> dict[str, _T]:
    return {other: value for other, value in entries.items() if other not in keys}


def _set_commands(rivals: Rivals, bundle: str, commands: Sequence[OwnMove]) -> Rivals:
    ours = {name: own for name, own in rivals.ours.items() if name != bundle}
    if commands:
        ours[bundle] = tuple(commands)
    return replace(rivals, ours=newest_entries(ours, MOST))


def _drop_own_moves(rivals: Rivals, bundle: str, own: OwnMove) -> Rivals:
    """Removes foreign moves that an outcome explains after all: executors may act after a
    command's expiry.
    """

    def is_ours(move: ForeignMove) -> bool:
        ours = own.issued_ms - AGE_MS <= move.ts <= own.until_ms
        return move.bundle == bundle and ours and move.source != own.destination

    return replace(
        rivals,
        news=tuple(move for move in rivals.news if not is_ours(move)),
        moves=tuple(move for move in rivals.moves if not is_ours(move)),
    )
