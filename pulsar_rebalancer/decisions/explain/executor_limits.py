"""The answers that an executor with given settings would give now to commands for a bundle: to
those on the control topic, and to those that no round has issued.

The verdicts are those of `strategies/executor/admission.py`, which the executor asks too. The owner
and the destination are looked up by the executor only; no verdict here depends on them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pulsar_rebalancer.decisions.explain.subject import Located
from pulsar_rebalancer.decisions.log import DecisionLog
from strategies.cluster.model import Command, Expected
from strategies.executor.admission import AdmissionRules, CommandFacts, Objection, may_be_considered

Action = Literal["unload", "transfer", "split"]
_ACTIONS: tuple[Action, ...] = ("unload", "transfer", "split")
_APPROVED = "if its plan is approved, and "
_IF = "if the owner and the destination, which the executor looks up then, still fit"


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """The limits of an executor at one time. `now_ms`: since the epoch; `paused`: whether its
    pause file exists, None if this user may not look; `paused_by`: cluster → person and reason of
    a pause by record; `approval`: plans need one.
    """

    rules: AdmissionRules
    now_ms: int
    paused: bool | None = False
    paused_by: Mapping[str, str] = field(default_factory=dict)
    approval: bool = False

    def objection(self, command: Command, newest_epoch: int = 0) -> Objection | None:
        """The executor's objection now, without its cluster, its key and its journal."""
        facts = CommandFacts(
            self.now_ms,
            newest_epoch=newest_epoch,
            paused=self.paused is True,
            paused_by=self.paused_by.get(command.cluster, ""),
        )
        return may_be_considered(command, facts, self.rules)


@dataclass(frozen=True, slots=True)
class LimitsVerdict:
    """The answer to commands with these actions. `command`: the id of a published command; None:
    no such command exists. `objection`: None = the executor would apply it, with `approval` if its
    plan is approved.
    """

    actions: tuple[str, ...]
    command: str | None
    objection: Objection | None
    approval: bool = False

    @property
    def line(self) -> str:
        """The verdict as a sentence without a full stop."""
        *others, last = self.actions
        what = f"{', '.join(others)} or {last}" if others else last
        about = f"{what} this bundle" if self.command is None else f"apply command {self.command}"
        if self.objection is None:
            condition = f"{_APPROVED}{_IF}" if self.approval else _IF
            return f"the executor with these settings would {about} now, {condition}"
        if self.objection.status == "expired":
            return f"the executor would no longer {about}: {self.objection}"
        return f"the executor with these settings would refuse to {about} now: {self.objection}"

    def as_object(self) -> dict[str, Any]:
        """For the JSON document; `status`, `code` and `text`: null without an objection."""
        objection = self.objection
        return {
            "actions": list(self.actions),
            "command": self.command,
            "status": None if objection is None else objection.status,
            "code": None if objection is None else objection.code,
            "text": None if objection is None else objection.text,
        }


def limits_verdicts(
    located: Located, whole: DecisionLog, limits: ExecutorLimits
) -> list[LimitsVerdict]:
    """Verdicts on a command, or on a bundle: on its newest command while that has no outcome and
    has not expired, otherwise on all actions. Empty for other subjects and for decided commands.

    `whole`: all epochs, because executors refuse commands of older ones.
    """
    subject, commands = located.subject, located.log.commands
    if subject.kind == "command":
        named = [one for one in commands if one.id == subject.name]
        return [_on_topic(one, whole, limits) for one in named if _is_open(one, whole)]
    if subject.kind != "bundle":
        return []
    waiting = [
        one
        for one in commands
        if one.bundle == subject.name and _is_open(one, whole) and limits.now_ms < one.expires_at_ms
    ]
    if waiting:
        return [_on_topic(waiting[-1], whole, limits)]
    clusters = located.log.clusters
    only = clusters[0] if len(clusters) == 1 else ""
    return list(verdicts_on_bundle(subject.name, only, limits))


def verdicts_on_bundle(
    bundle: str, cluster: str, limits: ExecutorLimits
) -> Iterator[LimitsVerdict]:
    """One verdict per different objection to a command that would be issued now."""
    by_answer: dict[Objection | None, list[str]] = {}
    for action in _ACTIONS:
        found = limits.objection(_issued_now(bundle, cluster, action, limits.now_ms))
        by_answer.setdefault(found, []).append(action)
    for objection, actions in by_answer.items():
        yield LimitsVerdict(tuple(actions), None, objection, limits.approval)


def _on_topic(command: Command, whole: DecisionLog, limits: ExecutorLimits) -> LimitsVerdict:
    newest_epoch = max(whole.of(command.cluster).epochs, default=0)
    objection = limits.objection(command, newest_epoch)
    return LimitsVerdict((command.action,), command.id, objection, limits.approval)


def _is_open(command: Command, whole: DecisionLog) -> bool:
    """True if the command has no outcome yet, or only that of a dry run."""
    outcome = whole.outcome_of(command)
    return outcome is None or outcome.status == "dry-run"


def _issued_now(bundle: str, cluster: str, action: Action, now_ms: int) -> Command:
    """A command that fits everywhere but in the limits. Its brokers do not matter to them."""
    return Command(
        id="",
        cluster=cluster,
        round=0,
        epoch=0,
        action=action,
        bundle=bundle,
        source="",
        destination=None if action == "unload" else "",
        strategy="",
        code="",
        text="",
        evidence={},
        expected=Expected(),
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + 1,
    )
