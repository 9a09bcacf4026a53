"""Plans that people approve: the commands of each round with their outcomes and the decision on
them, and the approval records that decide.

A plan is the set of a round's commands without throttle advice. Its id covers the bytes of each
command, so an approval is for exactly what was shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from pulsar_rebalancer.decisions.log import DecisionLog, read_topics, usable_key
from sinks.topics.open_topics import open_publisher
from sinks.topics.topic_settings import Connections
from sinks.wire.operator_records import check_person, encode_approval
from sinks.wire.signing_keys import SigningKey, approvals_key, signing_key
from strategies.cluster.model import Command, Outcome
from strategies.errors import RebalancerError, WireError
from strategies.executor.objections_to_approvals import (
    DONE,
    PAUSE_VALID_MS,
    Approval,
    ApprovalAction,
    ApprovalOutcome,
    ApprovalStatus,
    ApprovedCommand,
    PauseOrder,
    plan_id,
)
from strategies.figures.usage_after_moves import expected_spread, reported_spread

#: `refused`: every command has an outcome, none was carried out, and no person denied the plan.
PlanState = Literal["waiting", "approved", "denied", "expired", "done", "partly", "refused"]
_CARRIED_OUT = frozenset({"applied", "already-done", "dry-run"})
_COMPARED: Mapping[PlanState, str] = {
    "approved": "is approved",
    "denied": "is denied",
    "expired": "has expired",
    "done": "is done",
    "partly": "is partly done; nothing of it waits any more",
    "refused": "was refused by the executor",
}


class PlanError(RebalancerError):
    """There is no such plan, or it cannot be decided any more."""


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A command, the SHA-256 (hex) of its record, and its decisive outcome; None if it has none."""

    command: Command
    digest: str
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """One person's decision on a plan. `status`: an executor's answer, None before it; `answer`:
    `code: sentence` of that answer; `reason`: None if only the answer is known. `ts`: ms since the
    epoch.
    """

    approval_id: str
    action: ApprovalAction
    by: str
    reason: str | None
    ts: int
    status: ApprovalStatus | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The commands of one round. `ts`: when the round decided them, `expires_at_ms`: from when on
    they are no longer carried out (ms since the epoch).

    `decision`: the accepted one, or the newest without an answer, or None; `attempts`: all
    decisions, refused ones included. `complete`: the round and all its commands have been read.
    `spread_before`, `spread_after`: difference of the highest and the lowest usage (1.0 = 100 %),
    as reported and as expected, None without the round; `counted`: number of earlier moves that
    what is expected counts as done.
    """

    id: str
    cluster: str
    epoch: int
    round: int
    strategy: str
    ts: int
    expires_at_ms: int
    commands: tuple[PlannedCommand, ...]
    state: PlanState
    decision: PlanDecision | None
    attempts: tuple[PlanDecision, ...]
    complete: bool
    spread_before: float | None
    spread_after: float | None
    counted: int


def read_plans(connections: Connections, since_ms: int | None = None) -> DecisionLog:
    """Reads what plans are made of; a file topic that does not exist yet is empty. Commands and
    approvals that are not signed are left out if this user may read the key. `since_ms`: without
    records that were published before. Raises SettingsError, SinkError.
    """
    return read_topics(
        connections,
        ("rounds", "commands", "outcomes", "approvals"),
        {
            "commands": usable_key(connections.signing, signing_key),
            "approvals": usable_key(connections.signing, approvals_key),
        },
        since_ms,
    )


def noted(log: DecisionLog, plans: Iterable[Plan]) -> DecisionLog:
    """The log with what each command of a plan waits for: a missing outcome is no puzzle."""
    notes = {
        one.command.id: _waits_for(plan)
        for plan in plans
        if plan.state in ("waiting", "approved")
        for one in plan.commands
        if one.outcome is None
    }
    return replace(log, waits_for=notes, has_outcomes=True)


def _waits_for(plan: Plan) -> str:
    if plan.state == "waiting":
        return f"its plan {plan.id} waits for approval; see `rebalancer plans show {plan.id}`"
    by = plan.decision.by if plan.decision is not None else "a person"
    return f"{by} approved its plan {plan.id}, and it waits for its turn"


def plans_of(log: DecisionLog, now_ms: int) -> list[Plan]:
    """The plans of a log that has the digests of its commands, the newest first. `now_ms`: since
    the epoch.
    """
    decisions = _decisions(log)
    planned = (
        [one for one in commands if one.action != "throttle"] for commands in log.by_round.values()
    )
    found = [_plan(commands, log, decisions, now_ms) for commands in planned if commands]
    return sorted(found, key=lambda one: (-one.ts, one.cluster, -one.epoch, -one.round))


def _decisions(log: DecisionLog) -> dict[str, list[PlanDecision]]:
    """Plan id → the decisions on it, in the order of the approvals; those of which only the answer
    is left follow.
    """
    answers: dict[str, ApprovalOutcome] = {}
    for one in log.answers:
        # A replayed record has its own answer, which does not replace the first one's.
        if one.approval_id not in answers or one.status == "accepted":
            answers[one.approval_id] = one
    approvals = {one.id: one for one in reversed(log.approvals)}
    by_plan: dict[str, list[PlanDecision]] = {}
    for id_ in dict.fromkeys([*(one.id for one in log.approvals), *answers]):
        given, answer = approvals.get(id_), answers.get(id_)
        about = given or answers[id_]
        if about.plan is not None:
            decision = PlanDecision(
                id_,
                about.action,
                about.by,
                None if given is None else given.reason,
                about.ts,
                None if answer is None else answer.status,
                None if answer is None else answer.reason,
            )
            by_plan.setdefault(about.plan, []).append(decision)
    return by_plan


def pauses_of(log: DecisionLog) -> dict[str, PauseOrder]:
    """Cluster → its newest accepted pause or resume."""
    reasons = {one.id: one.reason for one in log.approvals}
    return {
        one.cluster: PauseOrder(
            one.action == "pause", one.by, reasons.get(one.approval_id, ""), one.ts
        )
        for one in log.answers
        if one.action in ("pause", "resume") and one.status == "accepted"
    }


def plan_named(plans: Iterable[Plan], prefix: str, cluster: str | None = None) -> Plan:
    """The plan whose id begins with `prefix`. Raises PlanError if there is none or more than
    one.
    """
    known = [one for one in plans if cluster in (None, one.cluster)]
    found = [one for one in known if prefix and one.id.startswith(prefix)]
    exact = [one for one in found if one.id == prefix]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        names = ", ".join(f"{one.id} of {one.cluster}" for one in found[:5])
        raise PlanError(f"{prefix}: {len(found)} plans begin with it: {names}; write more of it")
    newest = ", ".join(one.id for one in known[:5])
    raise PlanError(
        f"{prefix}: there is no such plan; the newest are {newest}"
        if newest
        else f"{prefix}: there is no plan yet; check topics.commands and topics.rounds"
    )


def approval_for(
    plan: Plan,
    action: ApprovalAction,
    *,
    by: str,
    reason: str,
    now_ms: int,
    new_id: str,
) -> Approval:
    """The record that approves or denies exactly this plan. `new_id`: random, never used before.
    Raises PlanError for a plan that cannot be decided (any more).
    """
    if plan.state != "waiting":
        raise PlanError(f"plan {plan.id} {_COMPARED[plan.state]}{_by_whom(plan)}")
    if not plan.complete:
        raise PlanError(
            f"plan {plan.id} is not complete: its round or some of its commands are not on the "
            "topics yet; try again"
        )
    commands, until = _approved(plan.commands), plan.expires_at_ms
    return _checked(
        Approval(new_id, plan.cluster, action, plan.id, commands, by, reason, now_ms, until)
    )


def pause_for(
    cluster: str,
    action: ApprovalAction,
    *,
    by: str,
    reason: str,
    now_ms: int,
    new_id: str,
) -> Approval:
    """The record that pauses the executor of a cluster, or resumes it. `new_id`: random, never used
    before. Raises PlanError for an empty person or reason.
    """
    until = now_ms + PAUSE_VALID_MS
    return _checked(Approval(new_id, cluster, action, None, (), by, reason, now_ms, until))


def publish_approval(
    connections: Connections,
    key: SigningKey,
    approval: Approval,
) -> None:
    """Signs the record and returns when it is on the approvals topic. Raises SettingsError,
    SinkError.
    """
    record = key.sign(encode_approval(approval))
    with closing(open_publisher(connections.topics.approvals, connections.access)) as publisher:
        publisher.publish(approval.cluster, record)
        publisher.flush()


def _approved(commands: Sequence[PlannedCommand]) -> tuple[ApprovedCommand, ...]:
    """The commands as an approval names them."""
    return tuple(ApprovedCommand(one.command.id, one.digest) for one in commands)


def _checked(approval: Approval) -> Approval:
    try:
        check_person(approval.by, approval.reason)
    except WireError as error:
        raise PlanError(error.text) from None
    return approval


def _by_whom(plan: Plan) -> str:
    decision = plan.decision
    if decision is None or decision.status != "accepted":
        return ""
    why = "" if decision.reason is None else f": {decision.reason}"
    done = DONE[decision.action]
    return f"; {decision.by} {done} it{why}"


def _plan(
    commands: Sequence[Command],
    log: DecisionLog,
    decisions: Mapping[str, list[PlanDecision]],
    now_ms: int,
) -> Plan:
    first, done = commands[0], log.round_of(commands[0])
    places = {} if done is None else {id_: place for place, id_ in enumerate(done.commands)}
    planned = tuple(
        PlannedCommand(one, log.digests.get(one.id, ""), log.outcome_of(one))
        for one in sorted(commands, key=lambda one: places.get(one.id, len(places)))
    )
    id_ = plan_id(first.cluster, first.epoch, first.round, _approved(planned))
    attempts = tuple(decisions.get(id_, ()))
    decision = _valid(attempts)
    expires_at_ms = max(one.expires_at_ms for one in commands)
    return Plan(
        id_,
        first.cluster,
        first.epoch,
        first.round,
        first.strategy,
        first.issued_at_ms,
        expires_at_ms,
        planned,
        _state(planned, decision, now_ms >= expires_at_ms),
        decision,
        attempts,
        done is not None and len(log.commands_of(done)) == len(done.commands),
        None if done is None else reported_spread(done),
        None if done is None else expected_spread(done),
        0 if done is None else done.counted,
    )


def _valid(attempts: Sequence[PlanDecision]) -> PlanDecision | None:
    accepted = [one for one in attempts if one.status == "accepted"]
    pending = [one for one in attempts if one.status is None]
    return accepted[0] if accepted else pending[-1] if pending else None


def _state(
    commands: Sequence[PlannedCommand], decision: PlanDecision | None, late: bool
) -> PlanState:
    accepted = decision.action if decision is not None and decision.status == "accepted" else None
    if accepted == "deny":
        return "denied"
    statuses = [one.outcome.status for one in commands if one.outcome is not None]
    done = sum(status in _CARRIED_OUT for status in statuses)
    if late or len(statuses) == len(commands):
        if done:
            return "done" if done == len(commands) else "partly"
        only_late = all(status == "expired" for status in statuses)
        return "expired" if only_late else "refused"
    return "approved" if accepted == "approve" else "waiting"
