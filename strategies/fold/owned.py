"""Keeps which bundles each broker of the extensible load manager owns, by the collector's notes.

Drains need them: such brokers report their busiest bundles only. They also show moves by something
else. A note has no part in the cluster's time.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from dataclasses import replace

from strategies.cluster.log_start import LONGEST_LOG_START, EarlyRecord
from strategies.cluster.model import Owned
from strategies.cluster.packing import pack_record, unpack_record
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.fold.ownership import Listing, listed
from strategies.round.drain_progress import by_notes_only


def read_owned(broker: str, store: StateStore) -> Owned | None:
    """The newest note about a broker; None without one."""
    packed = store.get_owned(broker)
    if packed is None:
        return None
    record = unpack_record(zlib.decompress(packed))
    assert isinstance(record, Owned)
    return record


def owned_by(brokers: Iterable[str], store: StateStore) -> dict[str, Owned]:
    """Broker → its newest note, for those that have one."""
    found = ((broker, read_owned(broker, store)) for broker in brokers)
    return {broker: record for broker, record in found if record is not None}


def keep_owned(record: Owned, store: StateStore, jump_ms: int) -> None:
    """Stores a note, and what the cluster's state learns of it. Before the first round it waits.

    Ignores notes of unknown brokers, late ones, and ones further than `jump_ms` from the cluster's
    time. A broker that has just withdrawn its figures is not unknown: it does so whenever one of
    its bundles moves.
    """
    state = store.get_cluster()
    if state.early is not None or state.clock is None:
        store.put_cluster(_wait(record, state))
        return
    now_ms = state.clock.now_ms
    known = store.get_broker(record.broker) is not None or record.broker in state.gone
    if not known or abs(record.ts - now_ms) > jump_ms:
        return
    before = read_owned(record.broker, store)
    if before is not None and record.ts <= before.ts:
        return
    listing = _listing(record, before, state)
    if before is None or record.bundles != before.bundles or record.ts - before.ts > jump_ms:
        _put(record, store)
    broker = store.get_broker(record.broker)
    if broker is not None and broker.bundles_at_ms >= 0 and broker.figures.usage_average is None:
        return  # a modular broker, whose reports list all of its bundles
    store.put_cluster(replace(state, rivals=listed(state.rivals, listing)))


def forget_owned(
    state: ClusterState, listed: Collection[str] | None, store: StateStore
) -> tuple[ClusterState, set[str]]:
    """Removes the notes of brokers that have left, and that the sweep of a round does not list.
    Returns the state after it, and the brokers that have left and whose notes stay.
    """
    noted = {broker for broker in state.gone if store.get_owned(broker) is not None}
    away = {broker for broker in noted if listed is not None and broker not in listed}
    for broker in away:
        store.remove_owned(broker)
    if away and state.intents.drains:
        state = replace(state, intents=by_notes_only(state.intents))
    return state, noted - away


def not_from_the_future(brokers: Iterable[str], store: StateStore, now_ms: int) -> None:
    """Corrects the times of notes after the cluster's time went back, so that newer ones count."""
    for broker in brokers:
        record = read_owned(broker, store)
        if record is not None and record.ts >= now_ms:
            _put(replace(record, ts=now_ms - 1), store)


def _listing(record: Owned, before: Owned | None, state: ClusterState) -> Listing:
    """The list of bundles of a note. The collector notes changes only: until the newest sweep, the
    list before was valid.
    """
    earlier, seen_ms = None, record.ts
    if before is not None:
        earlier, seen_ms = tuple(before.bundles), max(before.ts, state.sweep_at_ms)
    return Listing(record.broker, record.ts, earlier, tuple(record.bundles), seen_ms, None)


def _put(record: Owned, store: StateStore) -> None:
    packed = pack_record(replace(record, origin=b""))
    store.put_owned(record.broker, zlib.compress(packed, 1))


def _wait(record: Owned, state: ClusterState) -> ClusterState:
    early = state.intents.early
    if len(early) >= LONGEST_LOG_START:
        return state
    kept = EarlyRecord.of(replace(record, origin=b""), far=False)
    return replace(state, intents=replace(state.intents, early=(*early, kept)))
