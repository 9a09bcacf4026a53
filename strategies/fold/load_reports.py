"""Applies load reports: a broker's newest figures, and its bundle table."""

from dataclasses import replace
from typing import Any

from strategies.averages.bundle_averages import hand_over, take_table, unpack_history
from strategies.bundles import TableSummary
from strategies.cluster.cluster_state import (
    BrokerState,
    ClusterState,
    InFlight,
    StateStore,
    quick_replace,
)
from strategies.cluster.model import (
    REPEATED,
    Figures,
    LoadReport,
    Rejection,
    Tombstone,
)
from strategies.fold.foreign_moves import Listing, learn_list


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
