"""Folds the records that have no part in the cluster's time: intents, which an operator's machine
stamps, and the collector's notes of the bundles that brokers own. They wait for the first round,
because before it the list of brokers is not complete.

A record further than `round.max_clock_jump_ms` from the cluster's time is not used; all others take
effect at the cluster's time, not at their own. Drains need the notes, because brokers of the
extensible load manager report their busiest bundles only. Notes also show moves by something else.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from strategies.cluster.cluster_state import (
    BrokerState,
    ClusterState,
    StateStore,
    read_note,
    tolerance_of,
)
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import Owned, Rejection
from strategies.cluster.packed_records import EarlyRecord, compress_record
from strategies.cluster.remembered_intents import Intents
from strategies.fold.accept_intent import TOO_MANY, IntentFleet, IntentRefusal, accept, add_refusal
from strategies.fold.first_records_of_log import MOST_EARLY_RECORDS
from strategies.fold.foreign_moves import Listing, learn_list
from strategies.patterns_and_windows import matcher
from strategies.round.drain_progress import count_noted_bundles
from strategies.round.round_input_and_digest import Rules


def fold_intent(record: Intent, store: StateStore, rules: Rules) -> list[Rejection]:
    """Applies an intent to the cluster's state. Returns its rejection if it is refused; a repeated
    intent changes nothing.
    """
    state = store.get_cluster()
    if record.id in state.intents.seen:
        return []
    if state.early is None and state.clock is not None:
        return _accept_or_refuse(record, state, state.clock.now_ms, store, rules)
    intents = _add_early(record, state.intents)
    if intents is None:
        text = (
            f"{len(state.intents.early)} intents have come before the first round: no more are "
            "kept; write it again after the first round"
        )
        return [Rejection("intent-refused", text, record)]
    intents = replace(intents, seen={**intents.seen, record.id: record.ts})
    store.put_cluster(replace(state, intents=intents))
    return []


def fold_early(store: StateStore, rules: Rules) -> list[Rejection]:
    """Folds, after the first round, the records that have waited for it."""
    state, rejections = store.get_cluster(), list[Rejection]()
    store.put_cluster(replace(state, intents=replace(state.intents, early=())))
    for early in state.intents.early:
        record = early.record
        if isinstance(record, Owned):
            keep_note(record, store, rules.round.max_clock_jump_ms)
            continue
        assert isinstance(record, Intent)
        rejections += _accept_or_refuse(record, store.get_cluster(), state.now_ms, store, rules)
    return rejections


def _accept_or_refuse(
    record: Intent, state: ClusterState, now_ms: int, store: StateStore, rules: Rules
) -> list[Rejection]:
    if abs(record.ts - now_ms) > rules.round.max_clock_jump_ms:
        return [_reject_far(record, now_ms)]
    intents = replace(state.intents, seen={**state.intents.seen, record.id: record.ts})
    answer = accept(intents, fleet_of(store.brokers(), now_ms, rules), record, now_ms)
    if not isinstance(answer, IntentRefusal):
        store.put_cluster(replace(state, intents=answer))
        return []
    if answer.code != TOO_MANY:  # of a flood the state remembers nothing
        intents = add_refusal(intents, record, answer, now_ms)
        store.put_cluster(replace(state, intents=intents))
    return [Rejection("intent-refused", answer.line, record)]


def _add_early(record: Intent | Owned, intents: Intents) -> Intents | None:
    """Adds a record that waits for the first round; returns None if too many wait."""
    if len(intents.early) >= MOST_EARLY_RECORDS:
        return None
    return replace(intents, early=(*intents.early, EarlyRecord.of(record, far=False)))


def _reject_far(record: Intent, now_ms: int) -> Rejection:
    verdict = "ahead" if record.ts > now_ms else "behind"
    distance = abs(record.ts - now_ms) / 1000
    text = (
        f"its time {record.ts} is {distance:.0f} s {verdict} of the cluster's {now_ms}: correct "
        "the clock of the machine that wrote it, or check that telemetry arrives, then write it "
        "again"
    )
    return Rejection(f"clock-{verdict}", text, record)


def fleet_of(brokers: Iterable[BrokerState], now_ms: int, rules: Rules) -> IntentFleet:
    """Returns the brokers by which intents are accepted or refused at this time."""
    tolerance, is_excluded = tolerance_of(rules.round), matcher(rules.limits.excluded_brokers)
    reported_ms = {broker.broker: broker.reported_at_ms for broker in brokers}
    live = [
        name
        for name, ts in reported_ms.items()
        if ts >= 0 and -tolerance <= now_ms - ts <= rules.round.stale_after_ms
    ]
    return IntentFleet([*reported_ms], live, [*filter(is_excluded, reported_ms)])


def notes_about(brokers: Iterable[str], store: StateStore) -> dict[str, Owned]:
    """Returns broker → newest note of those of these brokers that have one."""
    notes = ((broker, read_note(broker, store)) for broker in brokers)
    return {broker: note for broker, note in notes if note is not None}


def keep_note(record: Owned, store: StateStore, jump_ms: int) -> None:
    """Stores a note and compares its list with the one before; before the first round it waits.

    Ignores notes about unknown brokers, late notes, and notes further than `jump_ms` from the
    cluster's time. A broker that has withdrawn its figures is known: brokers of the extensible load
    manager do so whenever one of their bundles moves.
    """
    state = store.get_cluster()
    if state.early is not None or state.clock is None:
        intents = _add_early(replace(record, origin=b""), state.intents)
        if intents is not None:
            store.put_cluster(replace(state, intents=intents))
        return
    broker = store.get_broker(record.broker)
    is_known = broker is not None or record.broker in state.gone
    if not is_known or abs(record.ts - state.clock.now_ms) > jump_ms:
        return
    before = read_note(record.broker, store)
    if before is not None and record.ts <= before.ts:
        return
    if before is None or record.bundles != before.bundles or record.ts - before.ts > jump_ms:
        store.put_owned(record.broker, compress_record(replace(record, origin=b"")))
    if broker is not None and broker.bundles_at_ms >= 0 and broker.figures.usage_average is None:
        return  # a modular broker, whose reports list all of its bundles
    rivals = learn_list(state.rivals, _listing(record, before, state))
    store.put_cluster(replace(state, rivals=rivals))


def forget_notes(
    state: ClusterState, listed: Collection[str] | None, store: StateStore
) -> tuple[ClusterState, set[str]]:
    """Removes the notes about brokers that have left and that the sweep of a round does not list.
    Returns the state after it, and the brokers that have left and whose notes stay. `listed`: the
    brokers of the sweep, None for a round without one.
    """
    noted_brokers = {broker for broker in state.gone if store.get_owned(broker) is not None}
    unlisted = {broker for broker in noted_brokers if listed is not None and broker not in listed}
    for broker in unlisted:
        store.remove_owned(broker)
    if unlisted and state.intents.drains:
        state = replace(state, intents=count_noted_bundles(state.intents))
    return state, noted_brokers - unlisted


def _listing(record: Owned, before: Owned | None, state: ClusterState) -> Listing:
    """Returns the list of bundles of a note. The collector writes a note only when the list has
    changed, so the list before was valid until the newest sweep.
    """
    earlier, seen_ms = None, record.ts
    if before is not None:
        earlier, seen_ms = tuple(before.bundles), max(before.ts, state.sweep_at_ms)
    return Listing(record.broker, record.ts, earlier, tuple(record.bundles), seen_ms, None)
