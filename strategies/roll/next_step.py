"""Decides the next step of a roll. The process of `rebalancer roll`, or a simulated one, carries it
out, and asks again.

A caller folds rounds with `after_round` and `with_answer`, looks at the cluster, asks `next_step`,
and notes what it did: `with_record` after WriteRecord, `with_restart` after RunRestart. A process
that starts again for a roll first writes a `resume` record, so that a round that answers it knows
all records of the process before (decision 0242).
"""

from __future__ import annotations

from collections.abc import Iterator

from strategies.cluster.intent_contract import IntentStatus
from strategies.figures.describe import age
from strategies.roll.steps import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    RollFacts,
    RollStep,
    RunRestart,
    WriteRecord,
)
from strategies.roll.view import ACTIVE_ROLL, IN_WORK, RestartRun

#: Rounds without an answer to a record, after which none is expected any more.
_UNANSWERED = 5
#: Maximum characters of a round's sentence in a record.
_LONGEST = 1_000
_RESUME = "then `rebalancer roll --resume`"


def next_step(facts: RollFacts) -> RollStep:
    """The next step. Never raises; always has one."""
    for rule in (_answer, _ended, _alarm, _restart, _gate, _begin):
        step = rule(facts)
        if step is not None:
            return step
    return _finish(facts)


def _answer(facts: RollFacts) -> RollStep | None:
    """What became of the records that this process wrote."""
    pending, view = facts.memory.pending, facts.rounds.view
    # Also of a drain that was accepted, and then refused by its first round.
    refused = next(
        (view.refused[id_] for id_ in sorted(view.refused) if id_ in facts.memory.ids), None
    )
    if refused is not None:
        return _refused(facts, refused)
    if pending is None:
        return None
    if facts.memory.in_charge and _other_record(facts):
        return _ended(facts)
    if facts.rounds.after(facts.memory.answered_after_ms) >= _UNANSWERED:
        return EndProcess(
            "unanswered",
            f"{_UNANSWERED} rounds do not mention the record that this process wrote",
            "Look for it among the rejected records (`rebalancer status`): the job may have "
            "another key than signing.intents_key_file here, or this machine's clock may be wrong; "
            "or another process goes on with this roll.",
        )
    newest = facts.rounds.times[-1:]
    ago = f"the newest round is {age(facts.now_ms - newest[0])} old" if newest else "none yet"
    return KeepWaiting(f"waits for a round that answers the record `{pending.action}`; {ago}")


def _refused(facts: RollFacts, refused: IntentStatus) -> RollStep:
    text = f"the record to {refused.action} was refused: {refused.text}"
    status = facts.rounds.view.status
    if status is None or status.state != "rolling" or not facts.memory.in_charge:
        return EndProcess("refused", text, refused.advice)
    return HaltRoll(text, f"{refused.advice} Then `rebalancer roll --resume`, or `--cancel`.")


def _ended(facts: RollFacts) -> RollStep | None:
    """What ends the process without a step of its own."""
    status = facts.rounds.view.status
    if status is None:
        return KeepWaiting("waits for a round that knows the roll")
    if status.state == "done":
        return EndProcess("done", status.text, status.advice)
    if status.state == "halted":
        return EndProcess("halted", status.text, status.advice)
    if status.state not in ACTIVE_ROLL:
        return EndProcess("cancelled", status.text, status.advice)
    return _taken_over() if _other_record(facts) else None


def _other_record(facts: RollFacts) -> bool:
    """Whether another process has written the roll's newest record."""
    status = facts.rounds.view.status
    known = facts.memory.ids
    return status is not None and status.record is not None and status.record not in known


def _taken_over() -> EndProcess:
    return EndProcess(
        "taken-over",
        "another process has written a record of this roll, and goes on with it",
        "Look at `rebalancer intents`; one process at a time carries out a roll.",
    )


def _alarm(facts: RollFacts) -> RollStep | None:
    """The first thing that looks wrong: the roll takes no step, and halts if it lasts."""
    wrong = next(_wrongs(facts), None)
    if wrong is None:
        return None
    halts, text, advice = wrong
    return HaltRoll(text, advice) if halts else KeepWaiting(f"takes no step: {text}")


def _wrongs(facts: RollFacts) -> Iterator[tuple[bool, str, str]]:
    """Whether it halts the roll, what is wrong, and what to do."""
    seen, rounds, rules, now_ms = facts.seen, facts.rounds, facts.rules, facts.now_ms
    if seen.frozen:
        names = ", ".join(sorted(seen.frozen))
        yield (
            True,
            f"{names}: frozen: answers, but reads of metadata never finish",
            f"Restart that broker, {_RESUME}; docs/PULSAR_FAULTS.md has a cause.",
        )
    if seen.live is None or seen.unreadable_ms is not None:
        for_ms = now_ms - (now_ms if seen.unreadable_ms is None else seen.unreadable_ms)
        yield (
            for_ms >= rules.unreadable_ms,
            f"the cluster has not answered reads of brokers and metadata for {age(for_ms)}",
            f"Check the brokers, their metadata store and pulsar.admin_urls, {_RESUME}.",
        )
    for broker in _lost(facts):
        for_ms = now_ms - seen.missing_ms.get(broker, now_ms)
        yield (
            for_ms >= rules.lost_ms,
            f"{broker} is missing in the list of brokers for {age(for_ms)}, and the roll did "
            "not restart it",
            f"Start that broker, {_RESUME}.",
        )
    for bundle, since_ms in sorted(seen.unowned_ms.items(), key=lambda one: (one[1], one[0])):
        yield (
            now_ms - since_ms >= rules.unowned_ms,
            f"{bundle} has had no owner for {age(now_ms - since_ms)}",
            f"Check its clients and the log of the leader, {_RESUME}.",
        )
    if rounds.bad:
        yield (
            rounds.bad >= rules.bad_rounds,
            f"{rounds.bad} rounds in a row are {rounds.state}: {rounds.text}",
            f"Look at `rebalancer status`, {_RESUME}.",
        )


def _lost(facts: RollFacts) -> list[str]:
    """Brokers that are missing without being restarted by the roll."""
    if facts.seen.live is None:
        return []
    phases = facts.rounds.view.phases
    # Rounds forget a broker after a while; this process does not.
    expected = {*phases, *facts.rounds.brokers, *facts.seen.missing_ms}
    return sorted(
        name
        for name in expected
        if phases.get(name) != "restarting" and name not in facts.seen.live
    )


def _restart(facts: RollFacts) -> RollStep | None:
    """The next step of the brokers that are being restarted."""
    waits: list[str] = []
    for broker in facts.brokers("restarting"):
        step = _restart_of(facts, broker)
        if not isinstance(step, KeepWaiting):
            return step
        waits.append(step.text)
    return KeepWaiting("; ".join(waits)) if waits and not _may_begin(facts) else None


def _restart_of(facts: RollFacts, broker: str) -> RollStep:
    if broker in facts.memory.due:
        return RunRestart(broker)
    run = facts.memory.ran.get(broker)
    if run is not None and run.failed is not None:
        return _halt_again(broker, f"the restart of {broker} failed: {run.failed}")
    if facts.has_restarted(broker) and facts.is_back(broker):
        if run is not None and run.running:
            return _in_time(facts, broker, run.at_ms, "and the end of its restart command")
        return WriteRecord("restarted", broker, f"{broker} has gone and come back")
    if not facts.is_listed(broker) or facts.has_restarted(broker):
        return _comes_back(facts, broker, run)
    if facts.rules.by_hand:
        return KeepWaiting(f"restart {broker} now; waits for it to go and come back")
    if run is None:
        return _orphan(facts, broker)
    return _in_time(facts, broker, run.at_ms, "to go and come back")


def _comes_back(facts: RollFacts, broker: str, run: RestartRun | None) -> RollStep:
    """Of a broker that is gone, or has started and does not serve yet."""
    since = [facts.seen.missing_ms.get(broker, facts.now_ms)]
    if run is not None and not facts.rules.by_hand:
        since.append(run.at_ms)
    if facts.is_listed(broker):
        since.append(facts.seen.gone_ms.get(broker, facts.memory.since_ms))
    return _in_time(facts, broker, min(since), "to come back and read metadata")


def _in_time(facts: RollFacts, broker: str, since_ms: int, what: str) -> RollStep:
    for_ms = facts.now_ms - since_ms
    if for_ms < facts.rules.restart_timeout_ms:
        most = age(facts.rules.restart_timeout_ms)
        return KeepWaiting(f"waits for {broker} {what}: {age(for_ms)} of at most {most}")
    return HaltRoll(
        f"{broker} did not come back within {age(facts.rules.restart_timeout_ms)}",
        f"Look at its log and start it, {_RESUME}; to run the command once more: `rebalancer roll "
        f"--resume --restart-again {broker}`.",
    )


def _orphan(facts: RollFacts, broker: str) -> RollStep:
    """Of a restart that a process before this one announced and may have begun."""
    left_ms = facts.memory.since_ms + facts.rules.orphan_ms - facts.now_ms
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


def _gate(facts: RollFacts) -> RollStep | None:
    """Whether the brokers that came back, those that took their bundles, and those that have yet to
    be drained have fresh figures.
    """
    rounds, rules = facts.rounds, facts.rules
    for broker in facts.brokers("restarted"):
        if rounds.fresh.get(broker, 0) >= rules.fresh_rounds:
            continue
        for_ms = facts.now_ms - rounds.restarted_ms.get(broker, facts.now_ms)
        if for_ms >= rules.restart_timeout_ms:
            return HaltRoll(
                f"no round has fresh figures of {broker}, which was restarted {age(for_ms)} ago",
                f"Check with `rebalancer doctor` that `rebalancer collect` reaches it, {_RESUME}.",
            )
        return KeepWaiting(f"waits for {rules.fresh_rounds} rounds with fresh figures of {broker}")
    restarting = facts.brokers("restarting")
    stale = [
        name for name in sorted(rounds.stale) if facts.is_listed(name) and name not in restarting
    ]
    if stale:
        return KeepWaiting(f"waits for fresh figures of {stale[0]}: {rounds.stale[stale[0]]}")
    # A broker of the extensible load manager withdraws its figures while bundles move, and a record
    # to drain a broker without figures is refused.
    unknown = [name for name, count in rounds.unknown.items() if count < rules.bad_rounds]
    return KeepWaiting(f"waits for a round that knows {unknown[0]}") if unknown else None


def _begin(facts: RollFacts) -> RollStep | None:
    """The next broker: to restart one that is drained, or to drain one."""
    drained = facts.brokers("drained")
    if drained:
        return WriteRecord("restarting", drained[0], f"{drained[0]} is drained")
    waiting = facts.brokers("waiting")
    if waiting and _has_room(facts):
        return _drain(facts, waiting)
    work = facts.brokers("draining", "restarting")
    return KeepWaiting("; ".join(_work(facts, name) for name in work)) if work else None


def _may_begin(facts: RollFacts) -> bool:
    """Whether there is a broker to restart or to drain, and room for it."""
    return bool(facts.brokers("drained") or (facts.brokers("waiting") and _has_room(facts)))


def _has_room(facts: RollFacts) -> bool:
    return len(facts.brokers(*IN_WORK)) < facts.max_unavailable


def _drain(facts: RollFacts, waiting: list[str]) -> RollStep:
    """The first broker by name, and the leader as the last one."""
    leader = facts.seen.leader
    if leader is None and len(waiting) > 1:
        return KeepWaiting("waits until the cluster has a leader, which is restarted last")
    others = [name for name in waiting if name != leader]
    if others:
        return WriteRecord("drain", others[0], "roll", bool(facts.brokers(*IN_WORK)))
    work = facts.brokers(*IN_WORK)
    if work:
        return KeepWaiting("; ".join(_work(facts, name) for name in work))
    return WriteRecord("drain", waiting[0], "roll: the leader as the last broker")


def _work(facts: RollFacts, broker: str) -> str:
    """What is under way at a broker."""
    drain = facts.rounds.view.drains.get(broker)
    if broker not in facts.brokers("draining") or drain is None:
        return f"waits for {broker} to come back"
    obstacle = f"; {facts.seen.obstacle}" if facts.seen.obstacle else ""
    return f"{_drain_line(drain)}{obstacle}"


def _drain_line(drain: IntentStatus) -> str:
    advice = f". {drain.advice}" if drain.state == "blocked" and drain.advice else ""
    left = f"; about {age(drain.left_ms)} left" if drain.left_ms else ""
    return f"{drain.broker}: {drain.text}{left}{advice}"


def _finish(facts: RollFacts) -> RollStep:
    """All brokers are restarted: the roll ends when the cluster is even again, or cannot be."""
    rounds, rules = facts.rounds, facts.rules
    if not rules.even or rounds.balanced >= rules.even_rounds:
        return WriteRecord("end", None, "all brokers are restarted")
    if rounds.helpless >= rules.even_rounds:
        why = rounds.text if len(rounds.text) <= _LONGEST else f"{rounds.text[:_LONGEST]}…"
        text = f"all brokers are restarted, but the load is not even: {why}. {rounds.advice}"
        return WriteRecord("end", None, text)
    return KeepWaiting(
        f"all brokers are restarted; waits until the load is even in {rules.even_rounds} "
        f"rounds in a row: {rounds.text} (--no-even does not wait)"
    )
