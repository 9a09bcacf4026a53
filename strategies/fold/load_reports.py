"""Applies load reports: a broker's newest figures, and its bundle table.

Also applies the records that have no part in the cluster's time: intents, which an operator's
machine stamps, and the collector's notes of the bundles that brokers own. They wait for the first
round, because before it the list of brokers is not complete.

Such a record further than `round.max_clock_jump_ms` from the cluster's time is not used; all others
take effect at the cluster's time, not at their own. Drains need the notes, because brokers of the
extensible load manager report their busiest bundles only. Notes also show moves by something else.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from strategies.averages.bundle_averages import hand_over, take_table, unpack_history
from strategies.bundles import TableSummary
from strategies.cluster.cluster_state import (
    BrokerState,
    ClusterState,
    InFlight,
    StateStore,
    newest_entries,
    note_name,
    quick_replace,
    read_note,
    tolerance_of,
)
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import (
    REPEATED,
    Figures,
    LoadReport,
    Owned,
    Rejection,
    Tombstone,
)
from strategies.cluster.packed_records import EarlyRecord, pack_record
from strategies.cluster.remembered_intents import Intents
from strategies.cluster.topics_of_bundle import MOST_BUNDLES, TopicsOfBundle
from strategies.fold.accept_intent import TOO_MANY, accept, add_refusal
from strategies.fold.first_records_of_log import MOST_EARLY_RECORDS
from strategies.fold.foreign_moves import Listing, learn_list
from strategies.fold.intent_refusals import IntentFleet, IntentRefusal
from strategies.patterns_and_windows import matcher
from strategies.round.drain_progress import count_noted_bundles
from strategies.round.round_input_and_digest import Rules


def accept_report(report: LoadReport, store: StateStore) -> Rejection | None:
    """Applies a report to the state of its broker and of the cluster. Returns its rejection if it
    cannot be used.
    """
    state, broker = store.get_cluster(), store.get_broker(report.broker)
    open_round = state.round + 1
    rejection = (
        _reject_after_departure(report, state)
        if broker is None
        else _reject_untimely(report, broker)
    )
    if _is_withdrawal(report) and (broker is None or rejection is not None):
        return None  # a tombstone of a broker that is gone, or a late or duplicate one
    if rejection is not None:
        return rejection
    if broker is None:
        broker = _newcomer(report.broker, state.joined)
        others = {name: ts for name, ts in state.gone.items() if name != report.broker}
        state = replace(state, joined=state.joined + 1, gone=others)
    if report.figures is not None and broker.reported_round != open_round:
        state = quick_replace(state, reported=state.reported + 1)
    table, listing = broker.table, None
    if report.bundles is not None and report.digest != broker.bundles_digest:
        names, seen_ms = report.bundles.names, broker.bundles_at_ms
        table, before, state = take_table(report.broker, report.bundles, state, store)
        if report.figures is not None:  # other reports list only some of the bundles
            listing = Listing(report.broker, report.ts, before, names, seen_ms, report.started_ms)
    store.put_broker(_update_broker(broker, report, table, open_round))
    if report.bundles is not None and state.in_flight:
        state = _see_moves(report, state)
    if listing is not None:
        rivals = learn_list(state.rivals, listing)
        if rivals is not state.rivals:
            state = replace(state, rivals=rivals)
    store.put_cluster(state)
    return None


def accept_withdrawal(record: Tombstone, store: StateStore) -> None:
    """Removes the broker, unless it has published figures again since this withdrawal."""
    broker = store.get_broker(record.broker)
    if broker is None or record.ts >= broker.reported_at_ms:
        store.put_cluster(depart(record.broker, store.get_cluster(), store, record.ts))


def depart(name: str, state: ClusterState, store: StateStore, ts: int = -1) -> ClusterState:
    """Removes a broker from the store and returns the cluster's state, which keeps the averages of
    its bundles until their new brokers report them. `ts`: time of the broker's own tombstone, -1
    without one.
    """
    broker, table = store.get_broker(name), store.get_table(name)
    newest = max(ts, state.gone.get(name, -1), -1 if broker is None else broker.newest_report_ms)
    strays = {other: stray for other, stray in state.strays.items() if other != name}
    state = replace(state, gone={**state.gone, name: newest}, strays=strays)
    store.remove_broker(name)
    if table is None:
        return state
    return hand_over(unpack_history(table).departing(None), name, state, store)


def _newcomer(name: str, order: int) -> BrokerState:
    return BrokerState(
        broker=name,
        order=order,
        reported_at_ms=-1,
        reported_round=-1,
        bundles_at_ms=-1,
        sampled_at_ms=-1,
        sampled_round=-1,
        judged_after_ms=-1,
        digest="",
        bundles_digest="",
        figures=Figures(),
    )


def _is_withdrawal(report: LoadReport) -> bool:
    """True if the report withdraws the bundles of a broker of the extensible load manager. The
    broker does so when a bundle moves, and the leader when the broker dies.
    """
    return report.figures is None and not (report.bundles and report.bundles.names)


def _reject_after_departure(report: LoadReport, state: ClusterState) -> Rejection | None:
    """Returns the rejection of a late report of a broker that has left; None for a newer report."""
    left_at = state.gone.get(report.broker, -1)
    if report.ts > left_at:
        return None
    text = (
        f"{report.broker} is gone since {left_at}, this report is of {report.ts}: it is late or a "
        "duplicate, nothing to do"
    )
    return Rejection("out-of-order", text, report)


def _reject_untimely(report: LoadReport, broker: BrokerState) -> Rejection | None:
    newest, digest = (
        (broker.reported_at_ms, broker.digest)
        if report.figures is not None
        else (broker.bundles_at_ms, broker.bundles_digest)
    )
    if report.ts > newest:
        return None
    if report.ts == newest and report.digest == digest:
        return Rejection(
            REPEATED, f"{report.broker} said the same at {report.ts} already: nothing to do", report
        )
    text = (
        f"{report.broker} has reported at {newest}, this report is of {report.ts}: it is late or "
        "a duplicate, nothing to do"
    )
    return Rejection("out-of-order", text, report)


def _update_broker(
    broker: BrokerState, report: LoadReport, table: TableSummary, open_round: int
) -> BrokerState:
    changed: dict[str, Any] = {"table": table}
    if report.digest != (broker.digest if report.figures is not None else broker.bundles_digest):
        changed |= {"sampled_at_ms": report.ts, "sampled_round": open_round}
    if report.figures is not None:
        changed |= {
            "figures": report.figures,
            "reported_at_ms": report.ts,
            "reported_round": open_round,
            "digest": report.digest,
            "left_out": report.left_out,
        }
    if report.bundles is not None:
        changed |= {"bundles_at_ms": report.ts, "bundles_digest": report.digest}
    if report.figures is None:  # only the extensible load manager's table
        changed |= {"left_out_of_table": report.left_out}
    return replace(broker, **changed)


def _see_moves(report: LoadReport, state: ClusterState) -> ClusterState:
    """Tracks commanded moves: the source's part is over when its report no longer lists the bundle,
    and the move is when another broker's report lists it.
    """
    assert report.bundles is not None
    names = frozenset(report.bundles.names)
    seen = {
        bundle: _update_move(move, bundle in names, report)
        for bundle, move in state.in_flight.items()
        if move.source == report.broker or bundle in names
    }
    if all(state.in_flight[bundle] is move for bundle, move in seen.items()):
        return state
    moves = {bundle: seen.get(bundle, move) for bundle, move in state.in_flight.items()}
    return replace(
        state, in_flight={bundle: move for bundle, move in moves.items() if move is not None}
    )


def _update_move(move: InFlight, listed: bool, report: LoadReport) -> InFlight | None:
    """Returns a move after a report of its source, or of another broker that lists the bundle; None
    if it is over.
    """
    if report.broker != move.source:
        return None
    if listed and move.left and move.arrived:
        return None  # it came back, for instance because its destination died
    if listed or report.ts <= move.issued_at_ms:
        return move
    if move.arrived and move.load == 0:
        return None  # it may have no topic, and reports list no such bundle
    if move.left:
        return move
    return None if move.destination is None else replace(move, left=True)


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
        store.put_table(note_name(record.broker), pack_record(replace(record, origin=b"")))
    if broker is not None and broker.bundles_at_ms >= 0 and broker.figures.usage_average is None:
        return  # a modular broker, whose reports list all of its bundles
    rivals = learn_list(state.rivals, _listing(record, before, state))
    store.put_cluster(replace(state, rivals=rivals))


def keep_topics(record: TopicsOfBundle, store: StateStore) -> None:
    """Stores the topics of a bundle, whose time the next round judges."""
    state = store.get_cluster()
    if state.clock is None and not state.early:  # a name without reports leaves no state
        return
    others = {bundle: known for bundle, known in state.topics.items() if bundle != record.bundle}
    topics = {**others, record.bundle: replace(record, origin=b"")}
    store.put_cluster(replace(state, topics=newest_entries(topics, MOST_BUNDLES)))


def forget_notes(
    state: ClusterState, listed: Collection[str] | None, store: StateStore
) -> tuple[ClusterState, set[str]]:
    """Removes the notes about brokers that have left and that the sweep of a round does not list.
    Returns the state after it, and the brokers that have left and whose notes stay. `listed`: the
    brokers of the sweep, None for a round without one.
    """
    noted_brokers = {
        broker for broker in state.gone if store.get_table(note_name(broker)) is not None
    }
    unlisted = {broker for broker in noted_brokers if listed is not None and broker not in listed}
    for broker in unlisted:
        store.remove_table(note_name(broker))
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
