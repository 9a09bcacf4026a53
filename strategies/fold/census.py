"""Applies sweeps. They confirm suspicions: a sweep shows whether the broker that lost a bundle is
alive.

Bundles of brokers that died, shut down, or lost their session had to go; that is Pulsar's
placement. A broker that shuts down leaves the list of brokers before it gives bundles up, so two
sweeps decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from strategies.cluster.model import Rejection, Sweep
from strategies.cluster.own_moves import without_old_commands
from strategies.cluster.rival_state import AGE_MS, ForeignMove, Rivals, Suspect
from strategies.cluster.state import ClusterState
from strategies.cluster.store import StateStore
from strategies.fold.ownership import HALF_MS, NEW_MS, ended, explains
from strategies.fold.reports import REPEATED

#: Number of sweeps that must find the source alive.
_PASSES = 2
#: Shortest pause between two sweeps, beyond twice the usual one, that counts as a gap.
_GAP_MS = 10_000


def accept_sweep(sweep: Sweep, store: StateStore) -> Rejection | None:
    """Brings a sweep into the cluster's state; why it cannot be used, if so."""
    state = store.get_cluster()
    if sweep.ts <= state.sweep_at_ms:
        return _late_sweep(sweep, state)
    known = [broker.broker for broker in store.brokers()]
    store.put_cluster(
        replace(
            state,
            sweep_at_ms=sweep.ts,
            sweep=sweep.sweep,
            missing=dict(sweep.missing),
            rivals=census(state.rivals, sweep, state.sweep_at_ms, known),
        )
    )
    return None


def census(rivals: Rivals, sweep: Sweep, last_ms: int, known: Collection[str]) -> Rivals:
    """The evidence after a sweep. `last_ms`: time of the one before, -1 without one; `known`: all
    brokers so far.
    """
    passed = sweep.ts - last_ms
    if last_ms < 0 or rivals.watching_ms < 0 or _is_gap(passed, rivals.pass_ms):
        rivals = replace(rivals, watching_ms=sweep.ts, left={}, arrived={}, suspects=())
    there = {*sweep.brokers, *sweep.answering}
    away = {broker: sweep.ts for broker in sorted(known) if broker not in there}
    oldest = sweep.ts - HALF_MS
    absent = {
        broker: ts
        for broker, ts in rivals.absent.items()
        if ts >= sweep.ts - NEW_MS and broker not in away
    }
    rivals = replace(
        rivals,
        pass_ms=_usual(passed, rivals.pass_ms) if last_ms >= 0 else 0,
        absent={**absent, **away},
        left={
            bundle: one
            for bundle, one in rivals.left.items()
            if one.ts >= oldest and one.broker in there
        },
        arrived={
            bundle: one
            for bundle, one in rivals.arrived.items()
            if one.ts >= sweep.ts - NEW_MS and one.broker in there
        },
        leader=sweep.leader,
        shedding=sweep.shedding,
    )
    return _judged(rivals, there, sweep.ts)


def is_calm(rivals: Rivals, now_ms: int) -> bool:
    """Whether sweeps of all brokers with the same bundles would show nothing: no bundle is between
    two brokers, no command is open, and nothing rests or yields.
    """
    evidence = (rivals.absent, rivals.left, rivals.arrived, rivals.suspects)
    findings = (rivals.news, rivals.moves, rivals.against_ms)
    open_until = max((own.until_ms for some in rivals.ours.values() for own in some), default=-1)
    return not any((*evidence, *findings)) and rivals.yielding_ms is None and open_until < now_ms


def after_calm(rivals: Rivals, last_ms: int, times_ms: Iterable[int], last: Sweep) -> Rivals:
    """The evidence after such sweeps, the newest of which is `last`; each of them closed a round.
    `last_ms`: time of the one before.
    """
    for ts in times_ms:
        passed, last_ms = ts - last_ms, ts
        if _is_gap(passed, rivals.pass_ms):
            rivals = replace(rivals, watching_ms=ts)
        rivals = replace(rivals, pass_ms=_usual(passed, rivals.pass_ms))
    return without_old_commands(
        replace(rivals, leader=last.leader, shedding=last.shedding), last_ms
    )


def _usual(passed_ms: int, usual_ms: int) -> int:
    return max(passed_ms, 3 * usual_ms // 4)


def _is_gap(passed_ms: int, usual_ms: int) -> bool:
    return usual_ms > 0 and passed_ms > 2 * usual_ms + _GAP_MS


def _judged(rivals: Rivals, there: Collection[str], now_ms: int) -> Rivals:
    if not rivals.suspects:
        return rivals
    waiting, found, ours = list[Suspect](), list[ForeignMove](), dict(rivals.ours)
    for suspect in rivals.suspects:
        move, own = suspect.move, rivals.ours.get(suspect.move.bundle, ())
        explained = explains(own, suspect, now_ms)
        was_away = rivals.absent.get(move.source, -1) >= move.ts - AGE_MS
        if explained or move.source not in there or was_away:
            continue
        passes = suspect.passes + 1
        if explained is None or passes < _PASSES:
            waiting.append(replace(suspect, passes=passes))
            continue
        found.append(replace(move, against=any(one.issued_ms < move.ts for one in own)))
        if own:
            ours[move.bundle] = ended(own)
    return replace(rivals, suspects=tuple(waiting), news=(*rivals.news, *found), ours=ours)


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
