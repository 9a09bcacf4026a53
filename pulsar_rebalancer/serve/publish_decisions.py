"""Publishes what a person decides on the page: approvals and denials of plans, pauses and resumes.

The record is signed with the key of approvals and names the person of the token; executors decide
whether it counts.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast, get_args

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster
from pulsar_rebalancer.decisions.plans import (
    Plan,
    PlanError,
    approval_for,
    pause_for,
    plan_named,
    plans_of,
    publish_approval,
)
from sinks.topics.topic_settings import Connections
from sinks.wire.signing_keys import SigningKey
from strategies.errors import RebalancerError
from strategies.executor.objections_to_approvals import DONE, Approval, ApprovalAction

NO_KEY = (
    "The page cannot sign decisions: set signing.approvals_key_file to the key that the executor "
    "has, then start `rebalancer serve` again."
)


@dataclass(frozen=True)
class DecisionPublisher:
    """`key`: of the records; None = the page writes nothing."""

    connections: Connections
    key: SigningKey | None
    now_ms: Callable[[], int]
    #: Plan → what this page has published about it.
    published: dict[str, list[Approval]] = field(default_factory=dict)

    async def decide(self, one: LiveCluster, by: str, body: dict[str, object]) -> Approval:
        """Publishes the decision in a request's body: `action`, `reason`, and `plan` for approve
        and deny. Raises HTTPException with 400, 409 or 503 and a sentence.
        """
        if self.key is None:
            raise HTTPException(409, NO_KEY)
        action, reason, plan = (body.get(name, "") for name in ("action", "reason", "plan"))
        if (
            not isinstance(reason, str)
            or not isinstance(plan, str)
            or action not in get_args(ApprovalAction)
        ):
            raise HTTPException(
                400, "The body has action (approve, deny, pause, resume), reason and plan as texts."
            )
        try:
            approval = self._record(one, by, cast(ApprovalAction, action), reason.strip(), plan)
        except PlanError as error:
            raise HTTPException(409, error_sentence(error)) from None
        try:
            await run_in_threadpool(publish_approval, self.connections, self.key, approval)
        except RebalancerError as error:
            raise HTTPException(503, error_sentence(error)) from None
        if approval.plan is not None:
            self._remember(approval, approval.plan)
        return approval

    def _remember(self, approval: Approval, plan: str) -> None:
        """Until the plan has expired."""
        now_ms = self.now_ms()
        for old in [id_ for id_, it in self.published.items() if it[0].expires_at_ms < now_ms]:
            del self.published[old]
        self.published.setdefault(plan, []).append(approval)

    def _record(
        self, one: LiveCluster, by: str, action: ApprovalAction, reason: str, plan: str
    ) -> Approval:
        now_ms, new_id = self.now_ms(), secrets.token_hex(16)
        if action in ("pause", "resume"):
            return pause_for(
                one.cluster, action, by=by, reason=reason, now_ms=now_ms, new_id=new_id
            )
        named = plan_named(plans_of(one.decisions.log, now_ms), plan, one.cluster)
        self._check_undecided(named, one)
        return approval_for(named, action, by=by, reason=reason, now_ms=now_ms, new_id=new_id)

    def _check_undecided(self, plan: Plan, one: LiveCluster) -> None:
        """Raises PlanError for a plan on which a person has decided, and the executor has not
        answered. The page's own decisions count before they have been read from the topic.
        """
        answered = {answer.approval_id for answer in one.decisions.log.answers}
        given = [*one.decisions.log.approvals, *self.published.get(plan.id, ())]
        for approval in given:
            if approval.plan == plan.id and approval.id not in answered:
                done = DONE[approval.action]
                raise PlanError(
                    f"{approval.by} {done} plan {plan.id} before: {approval.reason}; the executor "
                    "has not answered yet"
                )


def error_sentence(error: RebalancerError) -> str:
    """The error as a sentence, for an answer."""
    text = str(error).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
