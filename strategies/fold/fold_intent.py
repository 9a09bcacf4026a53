"""Folds the record of an intent into a cluster's state.

A person's machine stamps it, so its time moves nothing and has no vote: a record further from the
cluster's time than any other may be is rejected, else it counts from the cluster's time on. Before
the first round no broker is certain: records wait for it.
"""

from __future__ import annotations

from dataclasses import replace

from strategies.cluster.intent_contract import Intent
from strategies.cluster.log_start import LONGEST_LOG_START, EarlyRecord
from strategies.cluster.model import Owned, Rejection
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.fold.accept_intent import TOO_MANY, IntentRefusal, accept, refused
from strategies.fold.intent_fleet import fleet_of
from strategies.fold.owned import keep_owned
from strategies.round.round_input import Rules


def fold_intent(record: Intent, store: StateStore, rules: Rules) -> list[Rejection]:
    """Brings a record into the cluster's state; its rejection if it is refused. A repeated record
    changes nothing.
    """
    state = store.get_cluster()
    if record.id in state.intents.seen:
        return []
    if state.early is not None or state.clock is None:
        return _wait(record, state, store)
    return _judge(record, state, state.clock.now_ms, store, rules)


def fold_early(store: StateStore, rules: Rules) -> list[Rejection]:
    """Judges, after the first round, the records from before it."""
    state, rejections = store.get_cluster(), list[Rejection]()
    store.put_cluster(replace(state, intents=replace(state.intents, early=())))
    for one in state.intents.early:
        record = one.record
        if isinstance(record, Owned):
            keep_owned(record, store, rules.round.max_clock_jump_ms)
            continue
        assert isinstance(record, Intent)
        rejections += _judge(record, store.get_cluster(), state.now_ms, store, rules)
    return rejections


def _judge(
    record: Intent, state: ClusterState, now_ms: int, store: StateStore, rules: Rules
) -> list[Rejection]:
    if abs(record.ts - now_ms) > rules.round.max_clock_jump_ms:
        return [_far(record, now_ms)]
    intents = replace(state.intents, seen={**state.intents.seen, record.id: record.ts})
    judged = accept(intents, fleet_of(store.brokers(), now_ms, rules), record, now_ms)
    if not isinstance(judged, IntentRefusal):
        store.put_cluster(replace(state, intents=judged))
        return []
    if judged.code != TOO_MANY:  # else remembers nothing, so that a flood does not fill the state
        intents = refused(intents, record, judged, now_ms)
        store.put_cluster(replace(state, intents=intents))
    return [Rejection("intent-refused", judged.line, record)]


def _wait(record: Intent, state: ClusterState, store: StateStore) -> list[Rejection]:
    early = state.intents.early
    if len(early) >= LONGEST_LOG_START:
        text = (
            f"{len(early)} intents have come before the first round: no more are kept; write it "
            "again after the first round"
        )
        return [Rejection("intent-refused", text, record)]
    waiting = replace(
        state.intents,
        early=(*early, EarlyRecord.of(record, far=False)),
        seen={**state.intents.seen, record.id: record.ts},
    )
    store.put_cluster(replace(state, intents=waiting))
    return []


def _far(record: Intent, now_ms: int) -> Rejection:
    verdict = "ahead" if record.ts > now_ms else "behind"
    distance = abs(record.ts - now_ms) / 1000
    text = (
        f"its time {record.ts} is {distance:.0f} s {verdict} of the cluster's {now_ms}: correct "
        "the clock of the machine that wrote it, or check that telemetry arrives, then write it "
        "again"
    )
    return Rejection(f"clock-{verdict}", text, record)
