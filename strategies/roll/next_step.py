"""Decides the next step of a roll. The process of `rebalancer roll`, or a simulated one, carries it
out, and asks again.

A caller gives rounds to `RollState.read`, looks at the cluster, asks `next_step`, and notes what it
did: `write` after WriteRecord, `begin_restart` after RunRestart. A process that starts again for a
roll first writes a `resume` record, so that a round that answers it knows all records of the
process before (decision 0242).
"""

from collections.abc import Iterator
from functools import partial

from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Round
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.roll.roll_state_and_evidence import (
    IN_WORK,
    EndProcess,
    HaltRoll,
    KeepWaiting,
    Observation,
    RollState,
    RollStep,
    RunRestart,
    WriteRecord,
    known_brokers,
)

#: Rounds without an answer to a record, after which none is expected any more.
_UNANSWERED = 5
#: States of a round that finds a gap and no move for it: waiting does not help.
_HELPLESS = ("cannot-help", "not-allowed")
#: Maximum characters of a round's sentence in a record.
_LONGEST = 1_000
_RESUME = "then `rebalancer roll --resume`"


def next_step(state: RollState, seen: Observation) -> RollStep:
    """The next step, after a look at the cluster. Never raises; always has one."""
    state.look(seen)
    for rule in (_answer, _ended, _alarm, _restart, _gate, _begin):
        step = rule(state)
        if step is not None:
            return step
    return _finish(state)


def _answer(state: RollState) -> RollStep | None:
    """What became of the records that this process wrote."""
    # Also of a drain that was accepted, and then refused by its first round.
    refused = (one for one in state.said if one.state == "refused")
    mine = next((one for one in refused if one.id in state.ids), None)
    if mine is not None:
        return _refused(state, mine)
    if state.pending is None:
        return None
    if state.in_charge and _other_record(state):
        return _ended(state)
    if sum(done.ts > state.answered_after_ms for done in state.rounds) >= _UNANSWERED:
        return EndProcess(
            "unanswered",
            f"{_UNANSWERED} rounds do not mention the record that this process wrote",
            "Look for it among the rejected records (`rebalancer status`): the job may have "
            "another key than signing.intents_key_file here, or this machine's clock may be wrong; "
            "or another process goes on with this roll.",
        )
    ago = "none yet"
    if state.rounds:
        ago = f"the newest round is {age(state.seen.now_ms - state.rounds[-1].ts)} old"
    what = state.pending.action
    return KeepWaiting(f"waits for a round that answers the record `{what}`; {ago}")


def _refused(state: RollState, refused: IntentStatus) -> RollStep:
    text = f"the record to {refused.action} was refused: {refused.text}"
    status = state.status
    if status is None or status.state != "rolling" or not state.in_charge:
        return EndProcess("refused", text, refused.advice)
    return HaltRoll(text, f"{refused.advice} Then `rebalancer roll --resume`, or `--cancel`.")


def _ended(state: RollState) -> RollStep | None:
    """What ends the process without a step of its own."""
    status = state.status
    if status is None:
        return KeepWaiting("waits for a round that knows the roll")
    if status.state != "rolling":
        return EndProcess(status.state, status.text, status.advice)
    if not _other_record(state):
        return None
    return EndProcess(
        "taken-over",
        "another process has written a record of this roll, and goes on with it",
        "Look at `rebalancer intents`; one process at a time carries out a roll.",
    )


def _other_record(state: RollState) -> bool:
    """Whether another process has written the roll's newest record."""
    record = None if state.status is None else state.status.record
    return record is not None and record not in state.ids


def _alarm(state: RollState) -> RollStep | None:
    """The first thing that looks wrong: the roll takes no step, and halts if it lasts."""
    wrong = next(_wrongs(state), None)
    if wrong is None:
        return None
    halts, text, advice = wrong
    return HaltRoll(text, advice) if halts else KeepWaiting(f"takes no step: {text}")


def _wrongs(state: RollState) -> Iterator[tuple[bool, str, str]]:
    """Whether it halts the roll, what is wrong, and what to do."""
    rules, phases, now_ms = state.rules, state.phases, state.seen.now_ms
    if state.seen.frozen:
        names = ", ".join(sorted(state.seen.frozen))
        yield (
            True,
            f"{names}: frozen: answers, but reads of metadata never finish",
            f"Restart that broker, {_RESUME}; docs/PULSAR_FAULTS.md has a cause.",
        )
    if state.unreadable_since_ms is not None:
        for_ms = now_ms - state.unreadable_since_ms
        yield (
            for_ms >= rules.unreadable_ms,
            f"the cluster has not answered reads of brokers and metadata for {age(for_ms)}",
            f"Check the brokers, their metadata store and pulsar.admin_urls, {_RESUME}.",
        )
    for broker, since_ms in sorted(state.missing_since_ms.items()):
        if phases.get(broker) != "restarting":
            for_ms = now_ms - since_ms
            yield (
                for_ms >= rules.lost_ms,
                f"{broker} is missing in the list of brokers for {age(for_ms)}, and the roll "
                "did not restart it",
                f"Start that broker, {_RESUME}.",
            )
    for bundle, since_ms in sorted(
        state.unowned_since_ms.items(), key=lambda one: (one[1], one[0])
    ):
        yield (
            now_ms - since_ms >= rules.unowned_ms,
            f"{bundle} has had no owner for {age(now_ms - since_ms)}",
            f"Check its clients and the log of the leader, {_RESUME}.",
        )
    bad = state.in_a_row(lambda done: _cannot_judge(state, done))
    if bad:
        code, text, _ = _said(state.rounds[-1])
        yield (
            bad >= rules.bad_rounds,
            f"{bad} rounds in a row are {code}: {text}",
            f"Look at `rebalancer status`, {_RESUME}.",
        )


def _cannot_judge(state: RollState, done: Round) -> bool:
    """Whether a round is blind or yields. A broker that is being restarted may leave too few for a
    judgement.
    """
    code = _said(done)[0]
    excused = done.stale and all(
        state.phase_in(done, name) in ("restarting", "restarted") for name in done.stale
    )
    return code == "yielding" or (code == "blind" and not excused)


def _said(done: Round) -> tuple[str | None, str, str]:
    """Code, sentence and advice of a round's state."""
    if done.state is None:
        return None, "", ""
    return done.state.code, done.state.text, done.state.advice


def _restart(state: RollState) -> RollStep | None:
    """The next step of the brokers that are being restarted."""
    waits: list[str] = []
    for broker in state.brokers("restarting"):
        step = _restart_of(state, broker)
        if not isinstance(step, KeepWaiting):
            return step
        waits.append(step.text)
    return KeepWaiting("; ".join(waits)) if waits and not _may_begin(state) else None


def _restart_of(state: RollState, broker: str) -> RollStep:
    if broker in state.due:
        return RunRestart(broker)
    run = state.ran.get(broker)
    if run is not None and run.failed is not None:
        return _halt_again(broker, f"the restart of {broker} failed: {run.failed}")
    since_ms = state.missing_since_ms.get(broker, state.gone_ms.get(broker, state.since_ms))
    if run is not None and not state.rules.by_hand:
        since_ms = run.at_ms
    if state.has_restarted(broker) and state.is_back(broker):
        if run is not None and run.running:
            return _in_time(state, broker, since_ms, "and the end of its restart command")
        return WriteRecord("restarted", broker, f"{broker} has gone and come back")
    if not state.is_listed(broker) or state.has_restarted(broker):
        return _in_time(state, broker, since_ms, "to come back and read metadata")
    if state.rules.by_hand:
        return KeepWaiting(f"restart {broker} now; waits for it to go and come back")
    if run is None:
        return _orphan(state, broker)
    return _in_time(state, broker, since_ms, "to go and come back")


def _in_time(state: RollState, broker: str, since_ms: int, what: str) -> RollStep:
    for_ms = state.seen.now_ms - since_ms
    if for_ms < state.rules.restart_timeout_ms:
        most = age(state.rules.restart_timeout_ms)
        return KeepWaiting(f"waits for {broker} {what}: {age(for_ms)} of at most {most}")
    return HaltRoll(
        f"{broker} did not come back within {age(state.rules.restart_timeout_ms)}",
        f"Look at its log and start it, {_RESUME}; to run the command once more: `rebalancer roll "
        f"--resume --restart-again {broker}`.",
    )


def _orphan(state: RollState, broker: str) -> RollStep:
    """Of a restart that a process before this one announced and may have begun."""
    left_ms = state.since_ms + state.rules.orphan_ms - state.seen.now_ms
    if left_ms > 0:
        return KeepWaiting(
            f"{broker} was about to be restarted when the process before ended; waits "
            f"{age(left_ms)} more for a restart that may be under way"
        )
    return _halt_again(
        broker,
        f"{broker} was about to be restarted when the process before ended, and has not been "
        "restarted since",
    )


def _halt_again(broker: str, text: str) -> HaltRoll:
    return HaltRoll(
        text,
        f"Restart it by hand, {_RESUME}; or let the command run once more: `rebalancer roll "
        f"--resume --restart-again {broker}`.",
    )


def _gate(state: RollState) -> RollStep | None:
    """Whether the brokers that came back, those that took their bundles, and those that have yet to
    be drained have fresh figures.
    """
    rules, now_ms, newest = state.rules, state.seen.now_ms, state.rounds[-1]
    for broker in state.brokers("restarted"):
        if state.in_a_row(partial(_is_fresh, state, broker)) >= rules.fresh_rounds:
            continue
        for_ms = now_ms - state.restarted_since_ms[broker]
        if for_ms >= rules.restart_timeout_ms:
            return HaltRoll(
                f"no round has fresh figures of {broker}, which was restarted {age(for_ms)} ago",
                f"Check with `rebalancer doctor` that `rebalancer collect` reaches it, {_RESUME}.",
            )
        return KeepWaiting(f"waits for {rules.fresh_rounds} rounds with fresh figures of {broker}")
    for broker, why in sorted(newest.stale.items()):
        if state.is_listed(broker) and state.phases.get(broker) != "restarting":
            return KeepWaiting(f"waits for fresh figures of {broker}: {why}")
    # A broker of the extensible load manager withdraws its figures while bundles move, and a record
    # to drain a broker without figures is refused.
    for broker in state.brokers("waiting"):
        if 0 < state.in_a_row(partial(_is_unknown, state, broker)) < rules.bad_rounds:
            return KeepWaiting(f"waits for a round that knows {broker}")
    return None


def _is_fresh(state: RollState, broker: str, done: Round) -> bool:
    """Whether a round has figures of a broker that has been restarted."""
    is_restarted = state.phase_in(done, broker) == "restarted"
    return is_restarted and broker in done.usage and broker not in done.stale


def _is_unknown(state: RollState, broker: str, done: Round) -> bool:
    is_waiting = state.phase_in(done, broker) == "waiting"
    return is_waiting and broker not in known_brokers(done)


def _begin(state: RollState) -> RollStep | None:
    """The next broker: to restart one that is drained, or to drain one."""
    drained = state.brokers("drained")
    if drained:
        return WriteRecord("restarting", drained[0], f"{drained[0]} is drained")
    step = _drain(state) if _may_begin(state) else None
    work = state.brokers("draining", "restarting")
    if step is None and work:
        return KeepWaiting("; ".join(_work(state, name) for name in work))
    return step


def _may_begin(state: RollState) -> bool:
    """Whether there is a broker to restart or to drain, and room for it."""
    has_room = len(state.brokers(*IN_WORK)) < state.rules.max_unavailable
    return bool(state.brokers("drained") or (state.brokers("waiting") and has_room))


def _drain(state: RollState) -> RollStep | None:
    """The first broker by name, and the leader as the last one, beside no other."""
    waiting, leader = state.brokers("waiting"), state.seen.leader
    if leader is None and len(waiting) > 1:
        return KeepWaiting("waits until the cluster has a leader, which is restarted last")
    others, at_work = [name for name in waiting if name != leader], bool(state.brokers(*IN_WORK))
    if others:
        return WriteRecord("drain", others[0], "roll", at_work)
    if at_work:
        return None
    return WriteRecord("drain", waiting[0], "roll: the leader as the last broker")


def _work(state: RollState, broker: str) -> str:
    """What is under way at a broker."""
    drain = state.drain(broker)
    if broker not in state.brokers("draining") or drain is None:
        return f"waits for {broker} to come back"
    left = f"; about {age(drain.left_ms)} left" if drain.left_ms else ""
    advice = f". {drain.advice}" if drain.state == "blocked" and drain.advice else ""
    obstacle = f"; {state.seen.obstacle}" if state.seen.obstacle else ""
    return f"{broker}: {drain.text}{left}{advice}{obstacle}"


def _finish(state: RollState) -> RollStep:
    """All brokers are restarted: the roll ends when the cluster is even again, or cannot be."""
    rules, (_, text, advice) = state.rules, _said(state.rounds[-1])
    if not rules.even or _rounds_at_end(state, "balanced") >= rules.even_rounds:
        return WriteRecord("end", None, "all brokers are restarted")
    if _rounds_at_end(state, *_HELPLESS) >= rules.even_rounds:
        why = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        reason = f"all brokers are restarted, but the load is not even: {why}. {advice}"
        return WriteRecord("end", None, reason)
    return KeepWaiting(
        f"all brokers are restarted; waits until the load is even in {rules.even_rounds} "
        f"rounds in a row: {text} (--no-even does not wait)"
    )


def _rounds_at_end(state: RollState, *codes: str) -> int:
    """The number of rounds in a row in one of these states, since all brokers are restarted."""
    return state.in_a_row(
        lambda done: (
            _said(done)[0] in codes
            and all(state.phase_in(done, name) == "restarted" for name in state.phases)
        )
    )
