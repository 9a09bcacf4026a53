"""Forgets a cluster that has been away for longer than a setting's time: what it measured and
remembered has nothing to say about the cluster that comes back.

The time is the cluster's own: its clock accepts a jump that is longer. What `remains` is all that
records after such a gap depend on, so a store may drop the rest within it, and no byte differs.
"""

from __future__ import annotations

from dataclasses import replace

from strategies.cluster.intent_state import NO_INTENTS, Answers, Drain, Intents
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.settings import RoundSettings

DAY_MS = 86_400_000


def forget_ms(settings: RoundSettings) -> int:
    """After how long away (ms) a cluster is forgotten; 0 = never."""
    return settings.forget_cluster_after_days * DAY_MS


def remains(state: ClusterState) -> ClusterState:
    """What stays of a forgotten cluster: the number of its last round, so that ids of commands
    never repeat, its time, the newest policies, which a collector publishes once, what operators
    asked for, and what its quota has not reported yet. Applied again, it changes nothing.

    A cluster that never had a round stays as it is: its first records wait for others, at most 256.
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
        intents=_asked(state.intents),
        bulkhead=state.bulkhead,
    )


def is_forgotten(state: ClusterState) -> bool:
    """Whether nothing else is left of a cluster that had rounds; producers may have come whose time
    is not believed yet.
    """
    return state.early is None and replace(remains(state), strays=state.strays) == state


def can_be_forgotten(state: ClusterState, line_ms: int) -> bool:
    """Whether there is something to forget, and the cluster's time is not later than `line_ms`."""
    if state.early is not None or state.clock is None or is_forgotten(state):
        return False
    return state.clock.now_ms <= line_ms


def forget(state: ClusterState, store: StateStore) -> ClusterState:
    """What remains of a cluster; its brokers leave the store."""
    forget_brokers(state, store)
    return remains(state)


def forget_brokers(state: ClusterState, store: StateStore) -> None:
    """Removes all brokers, and the notes about them and about those that have left."""
    known = [broker.broker for broker in store.brokers()]
    for name in known:
        store.remove_broker(name)
    for name in [*known, *state.gone]:
        store.remove_owned(name)


def begin_again_if_away(last_ms: int, store: StateStore, settings: RoundSettings) -> None:
    """Forgets a cluster that has come back after longer than the setting. `last_ms`: its time
    before. As many brokers as it had must agree on another time until the next round counts them.
    """
    state, after_ms = store.get_cluster(), forget_ms(settings)
    if after_ms > 0 and state.now_ms - last_ms > after_ms:
        kept = forget(state, store)
        kept = replace(kept, round_at_ms=state.now_ms, voters=kept.live, live=0)
        store.put_cluster(kept)


def _asked(intents: Intents) -> Intents:
    if intents == NO_INTENTS:
        return intents
    drains = {broker: _without_figures(drain) for broker, drain in intents.drains.items()}
    return replace(intents, drains=drains)


def _without_figures(drain: Drain) -> Drain:
    return replace(
        drain,
        seen=(),
        gone=(),
        answers=Answers(),
        left=None,
        total=None,
        left_ms=None,
        error_ms=None,
    )
