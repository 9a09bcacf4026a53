"""The plans of a cluster as the page shows them: what waits for a person or an executor, and what
people decided; and answers to a search, from the same code as `rebalancer explain`.
"""

from dataclasses import dataclass

from pulsar_rebalancer.decisions.explain.explanation_lines import located_lines
from pulsar_rebalancer.decisions.explain.outcome_verdicts import in_short
from pulsar_rebalancer.decisions.explain.subject import LATEST, Located, UnknownSubject, locate
from pulsar_rebalancer.decisions.live.page_views import (
    Document,
    answer_of,
    pause_of_cluster,
)
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster
from pulsar_rebalancer.decisions.plans import Plan, PlanDecision, PlannedCommand, noted, plans_of
from pulsar_rebalancer.decisions.undo import applied_moves

#: Commands of one plan that a document lists, and decided plans.
MOST_COMMANDS, MOST_DECIDED = 500, 5
_OPEN = frozenset({"waiting", "approved"})


#: Longest text that is searched for; names have at most 512 characters.
LONGEST_SUBJECT = 600
#: Rounds that an answer about a broker or bundle lists.
LAST_ROUNDS = 20
#: Lines of an answer; a round of a large cluster has one for each broker.
MOST_LINES = 2_000


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """`required`: executors wait for approvals; `why_not`: why the page cannot write any, empty if
    it can.
    """

    required: bool = False
    why_not: str = ""


def plans_now(one: LiveCluster) -> list[Plan]:
    """All plans of the rounds that are kept, the newest first."""
    decisions = one.decisions
    # What changes with time only, the fold marks as a change (`LiveFold.tick`).
    return decisions.made.get("plans", lambda: plans_of(decisions.log, one.now_ms))


def plans(one: LiveCluster, settings: PlanSettings) -> Document:
    """The open plans with their commands, the newest decided ones, and who paused the executor."""
    found, pause = plans_now(one), pause_of_cluster(one)
    opened = [plan for plan in found if plan.state in _OPEN]
    decided = [plan for plan in found if plan.state not in _OPEN and plan.attempts]
    return {
        "version": one.version,
        "required": settings.required,
        "why_not": settings.why_not,
        "open": [
            {
                **_plan(plan),
                "commands": [_command(given, one) for given in plan.commands[:MOST_COMMANDS]],
            }
            for plan in opened
        ],
        "decided": [_plan(plan) for plan in decided[:MOST_DECIDED]],
        "pause": None
        if pause is None
        else {"paused": pause.paused, "by": pause.by, "reason": pause.reason, "ts": pause.ts},
        "pause_asked": _pending_pause(one),
    }


def _plan(plan: Plan) -> Document:
    return {
        "id": plan.id,
        "epoch": plan.epoch,
        "round": plan.round,
        "state": plan.state,
        "ts": plan.ts,
        "expires_at_ms": plan.expires_at_ms,
        "total": len(plan.commands),
        "complete": plan.complete,
        "spread_before": plan.spread_before,
        "spread_after": plan.spread_after,
        "counted": plan.counted,
        "decision": None if plan.decision is None else _decision(plan.decision),
        "refused": [
            _decision(one) for one in plan.attempts if one.status in ("refused", "expired")
        ],
    }


def _decision(one: PlanDecision) -> Document:
    return {
        "action": one.action,
        "by": one.by,
        "reason": one.reason,
        "ts": one.ts,
        "status": one.status,
        "answer": one.answer,
    }


def _pending_pause(one: LiveCluster) -> Document | None:
    """The newest pause or resume without an answer."""
    answered = {answer.approval_id for answer in one.decisions.log.answers}
    asked = [
        given
        for given in one.decisions.log.approvals
        if not given.is_about_plan and given.id not in answered and given.expires_at_ms > one.now_ms
    ]
    if not asked:
        return None
    newest = max(asked, key=lambda given: given.ts)
    return {"action": newest.action, "by": newest.by, "reason": newest.reason, "ts": newest.ts}


def _command(given: PlannedCommand, one: LiveCluster) -> Document:
    command, outcome, expected = given.command, given.outcome, given.command.expected
    return {
        "id": command.id,
        "action": command.action,
        "bundle": command.bundle,
        "source": command.source,
        "destination": command.destination,
        "text": command.text,
        "code": command.code,
        "expires_at_ms": command.expires_at_ms,
        "expected": [
            expected.source_before,
            expected.source_after,
            expected.destination_before,
            expected.destination_after,
        ],
        "answer": answer_of(command, one.decisions.log, one.now_ms),
        "outcome": "" if outcome is None else in_short(outcome),
    }


def answer(
    one: LiveCluster, subject: str, epoch: int | None = None, *, approval_required: bool = False
) -> Document:
    """Answers as `rebalancer explain` does, as lines, the newest round first; or says
    why it cannot.

    `approval_required`: whether plans wait for people. `found`: false if no record mentions the
    subject, or it is ambiguous.
    """
    word, log = subject.strip()[:LONGEST_SUBJECT] or LATEST, one.decisions.log
    if approval_required:
        log = noted(log, plans_now(one))
    try:
        located = locate(word, log, epoch)
    except UnknownSubject as error:
        return {"found": False, "subject": word, "kind": "", "lines": [str(error)]}
    lines = located_lines(located, LAST_ROUNDS, newest_first=True)
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"({more:,} more lines not shown)"] if more > 0 else [])]
    return {
        "found": True,
        "subject": located.subject.name,
        "kind": located.subject.kind,
        "lines": shown,
        "undo": _undo(located, one),
    }


def _undo(located: Located, one: LiveCluster) -> Document | None:
    """A round with applied moves, and their number."""
    if located.subject.kind != "round":
        return None
    keys = {(done.epoch, done.round) for done in located.log.rounds}
    number = int(located.subject.name)
    for plan in plans_now(one):
        if plan.round == number and (plan.epoch, number) in keys and (moves := applied_moves(plan)):
            return {"epoch": plan.epoch, "round": number, "moves": len(moves)}
    return None
