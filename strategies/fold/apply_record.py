"""Applies one record whose time is believed to a cluster's state."""

from __future__ import annotations

from dataclasses import replace

from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import (
    LoadReport,
    Note,
    OutcomeReport,
    Owned,
    Policies,
    Rejection,
    Sweep,
    TelemetryRecord,
    Tombstone,
)
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.fold.census import census
from strategies.fold.outcomes import learn_outcome
from strategies.fold.reports import REPEATED, accept_report, depart


def apply_record(record: TelemetryRecord, store: StateStore) -> Rejection | None:
    """Brings a record into the cluster's state; why it cannot be used, if so."""
    if isinstance(record, LoadReport):
        return accept_report(record, store)
    state = store.get_cluster()
    match record:
        case Tombstone():
            broker = store.get_broker(record.broker)
            # Else the broker has published figures again since this withdrawal.
            if broker is None or record.ts >= broker.reported_at_ms:
                store.put_cluster(depart(record.broker, state, store, record.ts))
        case Sweep():
            if record.ts <= state.sweep_at_ms:
                return _late_sweep(record, state)
            store.put_cluster(_after_sweep(record, state, store))
        case OutcomeReport():
            store.put_cluster(learn_outcome(record, state, store))
        case Policies():
            store.put_cluster(replace(state, policies=record.snapshot))
        case Intent() | Owned() | Note():  # neither has a time
            pass
    return None


def _after_sweep(record: Sweep, state: ClusterState, store: StateStore) -> ClusterState:
    known = [broker.broker for broker in store.brokers()]
    return replace(
        state,
        sweep_at_ms=record.ts,
        sweep=record.sweep,
        missing=dict(record.missing),
        rivals=census(state.rivals, record, state.sweep_at_ms, known),
    )


def _late_sweep(record: Sweep, state: ClusterState) -> Rejection:
    if (record.ts, record.sweep, record.missing) == (state.sweep_at_ms, state.sweep, state.missing):
        return Rejection(
            REPEATED, f"pass {record.sweep} ended at {record.ts} already: nothing to do", record
        )
    text = (
        f"a sweep of {state.sweep_at_ms} came before this one of {record.ts}: it is late or a "
        "duplicate, nothing to do"
    )
    if record.sweep == state.sweep + 1:
        text = (
            f"pass {record.sweep} is stamped {record.ts}, pass {state.sweep} was stamped "
            f"{state.sweep_at_ms}: "
            "the collector's clock stands still or went back; check it"
        )
    return Rejection(
        "duplicate" if record.ts == state.sweep_at_ms else "out-of-order", text, record
    )
