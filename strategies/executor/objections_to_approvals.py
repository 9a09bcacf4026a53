"""Decides whether an approval record counts: takes the record and facts, returns the objection or
None. Carries nothing out.

A plan is the set of a round's commands, without advice. An approval names the plan and each command
with the digest of its bytes, so that it never covers a command that the person did not see.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from strategies.cluster.model import OutcomeStatus
from strategies.executor.admission import MOST_AHEAD_MS, Objection, Signature, older_epoch

ApprovalAction = Literal["approve", "deny", "pause", "resume"]
ApprovalStatus = Literal["accepted", "refused", "expired"]

#: What a person has done with a plan.
DONE: Mapping[ApprovalAction, str] = {
    "approve": "approved",
    "deny": "denied",
    "pause": "paused",
    "resume": "resumed",
}
#: Reason code of a command that pretends to be the approved one.
NOT_THE_APPROVED_PLAN = "not-the-approved-plan"
_PLAN_ID = re.compile(r"(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})-[0-9a-f]{12}")
_SHORT_DIGEST = 12
#: How long an executor may take to read a pause or a resume, for example because it is stopped.
PAUSE_VALID_MS = 7 * 86_400_000


class ApprovedCommand(NamedTuple):
    """A command's id, and the SHA-256 (hex) of its record's bytes, signature included."""

    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person decided about a plan, or about the executor as a whole: `plan` is None and
    `commands` empty for pause and resume.

    `by`: the person; `ts`, `expires_at_ms`: ms since the epoch.
    """

    id: str
    cluster: str
    action: ApprovalAction
    plan: str | None
    commands: tuple[ApprovedCommand, ...]
    by: str
    reason: str
    ts: int
    expires_at_ms: int

    @property
    def is_about_plan(self) -> bool:
        """Whether it decides on a plan; otherwise it pauses or resumes the executor."""
        return self.action in ("approve", "deny")


@dataclass(frozen=True, slots=True)
class ApprovalOutcome:
    """An executor's answer to one approval record. `reason`: None, or `code: sentence`."""

    approval_id: str
    cluster: str
    action: ApprovalAction
    plan: str | None
    by: str
    status: ApprovalStatus
    reason: str | None
    ts: int


@dataclass(frozen=True, slots=True)
class PauseOrder:
    """The newest accepted pause or resume of a cluster; `paused`: which of them it is."""

    paused: bool
    by: str
    reason: str
    ts: int


@dataclass(frozen=True, slots=True)
class PlanRuling:
    """The accepted decision on a command, as it is on the record."""

    action: Literal["approve", "deny"]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingCommand:
    """A command that an executor holds. `ruling`: the decision on exactly its bytes;
    `others_approved`: a command with its id and other bytes is approved.
    """

    epoch: int
    expires_at_ms: int
    ruling: PlanRuling | None
    others_approved: bool


@dataclass(frozen=True, slots=True)
class ApprovalFacts:
    """Facts about an approval record.

    `seen`: another record had the same id; `required`: the executor waits for approvals; `earlier`:
    the first decision on the same plan; `waiting`: number of its commands that are held and may
    still be carried out; `answered`: statuses of its commands that are no longer held; `pause`: the
    newest accepted pause or resume.
    """

    now_ms: int
    signature: Signature
    seen: bool = False
    required: bool = True
    earlier: PlanRuling | None = None
    waiting: int = 0
    answered: Mapping[OutcomeStatus, int] | None = None
    pause: PauseOrder | None = None


@dataclass(frozen=True, slots=True)
class ApprovalObjection(Objection):
    """Reason against an approval record; `status`: of the answer."""

    status: Literal["refused", "expired"]


def plan_id(cluster: str, epoch: int, round_: int, commands: Iterable[ApprovedCommand]) -> str:
    """`3.17-0f3a…`: epoch, round, and a digest of the cluster and of exactly these commands, in any
    order.
    """
    content = json.dumps([cluster, epoch, round_, sorted(commands)], separators=(",", ":"))
    made = hashlib.sha256(content.encode()).hexdigest()
    return f"{epoch}.{round_}-{made[:_SHORT_DIGEST]}"


def fits_its_commands(approval: Approval) -> bool:
    """Whether the plan id is the one of the named commands."""
    match = _PLAN_ID.fullmatch(approval.plan or "")
    if match is None:
        return False
    made = plan_id(approval.cluster, int(match[1]), int(match[2]), approval.commands)
    return made == approval.plan


def ruling_on(
    held: WaitingCommand, now_ms: int, newest_epoch: int
) -> Objection | Literal["waits", "approved"]:
    """What becomes of a held command now; an approved one is judged like any other."""
    ruling = held.ruling
    if ruling is not None and ruling.action == "approve":
        return "approved"
    if ruling is not None:
        return Objection("refused", "denied", f"{ruling.by}: {ruling.reason}")
    if held.epoch < newest_epoch:
        return older_epoch(held.epoch, newest_epoch)
    if held.others_approved:
        return Objection(
            "refused",
            NOT_THE_APPROVED_PLAN,
            "the approved plan has a command with this id and other bytes",
        )
    if now_ms >= held.expires_at_ms:
        late_s = (now_ms - held.expires_at_ms) / 1000
        return Objection(
            "expired",
            "not-approved",
            f"no one approved or denied its plan; the command expired {late_s:.0f} s ago",
        )
    return "waits"


def approval_objection(approval: Approval, known: ApprovalFacts) -> ApprovalObjection | None:
    """The first objection, in the order of the rules; None when there is none. Without one, an
    approval for which `waiting` is 0 is kept until a command of its plan arrives.
    """
    return (
        _forged_approval(known)
        or _not_fresh(approval, known)
        or (
            _about_plan(approval, known)
            if approval.is_about_plan
            else _about_pause(approval, known)
        )
        or _too_old(approval, known)
    )


def _refused(code: str, text: str) -> ApprovalObjection:
    return ApprovalObjection("refused", code, text)


def _forged_approval(known: ApprovalFacts) -> ApprovalObjection | None:
    match known.signature:
        case "unsigned":
            return _refused("unsigned", "the record carries no signature")
        case "wrong":
            return _refused(
                "wrong-signature",
                "the signature does not belong to these bytes and this executor's approvals key",
            )
        case "unchecked":
            return _refused("unchecked", "this executor has no signing.approvals_key_file")
    return None


def _not_fresh(approval: Approval, known: ApprovalFacts) -> ApprovalObjection | None:
    if known.seen:
        return _refused("replayed", "a record with this id came before")
    if approval.ts > known.now_ms + MOST_AHEAD_MS:
        ahead_s = (approval.ts - known.now_ms) / 1000
        return _refused(
            "from-the-future",
            f"the record was made {ahead_s:.0f} s ahead of this machine's clock; set the clocks",
        )
    return None


def _about_plan(approval: Approval, known: ApprovalFacts) -> ApprovalObjection | None:
    if not known.required:
        return _refused(
            "not-required", "this executor waits for no approval (executor.approval = none)"
        )
    if not fits_its_commands(approval):
        return _refused("wrong-plan-id", "the plan id is not the one of the named commands")
    earlier = known.earlier
    if earlier is not None:
        done = DONE[earlier.action]
        return _refused(
            "already-decided", f"{earlier.by} {done} this plan before: {earlier.reason}"
        )
    if known.waiting == 0 and known.answered:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(known.answered.items()))
        return _refused(
            "too-late", f"no command of this plan waits for approval any more ({counts})"
        )
    return None


def _about_pause(approval: Approval, known: ApprovalFacts) -> ApprovalObjection | None:
    pause = known.pause
    if pause is not None and approval.ts < pause.ts:
        newer = "pause" if pause.paused else "resume"
        return _refused("older", f"{pause.by} ordered a {newer} at a later time")
    if approval.action == "resume" and (pause is None or not pause.paused):
        return _refused("not-paused", "no record pauses this executor")
    return None


def _too_old(approval: Approval, known: ApprovalFacts) -> ApprovalObjection | None:
    if known.now_ms < approval.expires_at_ms:
        return None
    late_s = (known.now_ms - approval.expires_at_ms) / 1000
    if approval.is_about_plan and known.waiting == 0:
        return ApprovalObjection(
            "expired",
            "unknown-plan",
            f"no command of this plan arrived before the record expired, {late_s:.0f} s ago",
        )
    return ApprovalObjection("expired", "expired", f"the record expired {late_s:.0f} s ago")
