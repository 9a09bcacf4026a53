"""`rebalancer plans`: plans that wait for a person, decisions on them, and pauses by record."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any
from uuid import uuid4

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.explain.explanation_lines import (
    expected_usage,
    instruction,
    points,
    when,
)
from pulsar_rebalancer.decisions.explain.outcome_verdicts import in_short
from pulsar_rebalancer.decisions.explain.subject import UnknownSubject
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.plans import (
    Plan,
    PlanDecision,
    PlannedCommand,
    approval_for,
    pause_for,
    pauses_of,
    plan_named,
    plans_of,
    publish_approval,
    read_plans,
)
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import wall_clock_ms
from sinks.wire.operator_records import encode_approval
from sinks.wire.record_encoding import encode_command, encode_outcome
from sinks.wire.signing_keys import SigningKey, approvals_key
from strategies.errors import SettingsError
from strategies.executor.objections_to_approvals import DONE, Approval, ApprovalAction, PauseOrder
from strategies.figures.texts_of_counts_names_and_ages import age, counted, counted_with

app = typer.Typer(
    no_args_is_help=True, help="Show, approve and deny plans; pause and resume an executor."
)

PlanName = Annotated[
    str, typer.Argument(metavar="PLAN", help="Id of the plan, or the beginning of it.")
]


@app.callback()
def root() -> None:
    """Show, approve and deny plans; pause and resume an executor.

    A plan is the set of a round's commands. With executor.approval = "required", an executor waits
    until a person has approved a plan, and then carries out exactly its commands.
    """


@app.command("list", short_help="List the newest plans.")
def list_command(
    *,
    cluster: options.OnlyCluster = None,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Show the newest N plans.")] = 20,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """List the newest plans with their state, the newest first, and pauses by record."""
    now_ms = wall_clock_ms()
    log = _read(options.installation(config, overrides))
    pauses = pauses_of(log)
    known = {*log.clusters, *pauses}
    if cluster is not None and cluster not in known:
        raise UnknownSubject(
            f"{cluster}: no record names this cluster; there are {', '.join(sorted(known))}"
        )
    shown = [one for one in plans_of(log, now_ms) if cluster in (None, one.cluster)][:last]
    if as_json:
        body = {"now_ms": now_ms, "plans": [_as_object(one) for one in shown]}
        console.print_json("plans", 1, {**body, "pauses": _pauses(pauses)})
        return
    if shown:
        console.show(_table(shown, now_ms))
    else:
        console.say("no plan yet: no round has decided on a command")
    console.say(*pause_lines(pauses, now_ms))


@app.command("show", short_help="Show a plan's commands and decisions.")
def show_command(
    plan: PlanName,
    *,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show the commands of a plan with reason, expected effect and outcome, and who decided."""
    now_ms = wall_clock_ms()
    log = _read(options.installation(config, overrides))
    found = plan_named(plans_of(log, now_ms), plan, cluster)
    body = {"now_ms": now_ms, "plan": _as_object(found)}
    console.answer("plan", body, *plan_lines(found, now_ms), as_json=as_json)


@app.command("approve", short_help="Approve a plan.")
def approve_command(
    plan: PlanName,
    *,
    reason: options.Why,
    by: options.Who = None,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Approve a plan: the executor carries out exactly these commands, and refuses those that no
    longer fit one by one.

    Exit code 1 if the plan has expired or is decided.
    """
    settings = options.installation(config, overrides)
    _decide("approve", plan, settings, reason=reason, by=by, cluster=cluster, as_json=as_json)


@app.command("deny", short_help="Deny a plan, which frees its bundles.")
def deny_command(
    plan: PlanName,
    *,
    reason: options.Why,
    by: options.Who = None,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Deny a plan: the executor refuses its commands, and later rounds may choose their bundles
    again.

    Exit code 1 if the plan has expired or is decided.
    """
    settings = options.installation(config, overrides)
    _decide("deny", plan, settings, reason=reason, by=by, cluster=cluster, as_json=as_json)


@app.command("pause", short_help="Pause the executor of a cluster.")
def pause_command(
    *,
    reason: options.Why,
    by: options.Who = None,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Pause the executor of a cluster: it refuses commands until a record resumes it."""
    settings = options.installation(config, overrides)
    _order("pause", settings, reason=reason, by=by, cluster=cluster, as_json=as_json)


@app.command("resume", short_help="Resume a paused executor.")
def resume_command(
    *,
    reason: options.Why,
    by: options.Who = None,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """End the pause by record of a cluster's executor. A pause file stays in effect."""
    settings = options.installation(config, overrides)
    _order("resume", settings, reason=reason, by=by, cluster=cluster, as_json=as_json)


def _decide(
    action: ApprovalAction,
    name: str,
    settings: Settings,
    *,
    reason: str,
    by: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    key, now_ms = _key(settings), wall_clock_ms()
    plan = plan_named(plans_of(_read(settings), now_ms), name, cluster)
    approval = approval_for(
        plan, action, by=options.person_of(by), reason=reason, now_ms=now_ms, new_id=uuid4().hex
    )
    if plan.decision is not None:
        before = f"{_decided(plan.decision)} before, and no executor has answered yet"
        console.warn([f"plan {plan.id} was {before}; the first decision counts"])
    publish_approval(settings.connections, key, approval)
    left = age(plan.expires_at_ms - now_ms)
    _say(
        approval,
        f"{DONE[action]} plan {plan.id} ({counted(len(plan.commands), 'command')}) as "
        f"{approval.by}; it expires in {left}. The executor's answer: rebalancer plans show "
        f"{plan.id}",
        as_json,
    )


def _order(
    action: ApprovalAction,
    settings: Settings,
    *,
    reason: str,
    by: str | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    key = _key(settings)
    name = cluster or settings.connections.pulsar.cluster
    if not name:
        raise SettingsError(["pulsar.cluster: is empty; name the cluster with --cluster"])
    approval = pause_for(
        name,
        action,
        by=options.person_of(by),
        reason=reason,
        now_ms=wall_clock_ms(),
        new_id=uuid4().hex,
    )
    publish_approval(settings.connections, key, approval)
    _say(
        approval,
        f"ordered the executor of {name} to {action}, as {approval.by}; its answer: rebalancer "
        "plans list",
        as_json,
    )


def _say(approval: Approval, sentence: str, as_json: bool) -> None:
    body = {"approval": json.loads(encode_approval(approval))}
    console.answer("approval", body, sentence, as_json=as_json)


def _read(settings: Settings) -> DecisionLog:
    log = read_plans(settings.connections)
    console.warn(log.skipped)
    if not log.clusters and not pauses_of(log):
        raise options.nothing_found("round, command or pause", settings)
    return log


def _key(settings: Settings) -> SigningKey:
    key = approvals_key(settings.connections.signing)
    if key is None:
        raise SettingsError(
            [
                "signing.approvals_key_file: is empty; name the file with the executor's approvals "
                "key, which signs decisions"
            ]
        )
    return key


def _table(plans: list[Plan], now_ms: int) -> console.Sheet:
    rows = [
        [
            one.id,
            one.cluster,
            age(now_ms - one.ts),
            age(one.expires_at_ms - now_ms) if one.state in ("waiting", "approved") else "-",
            str(len(one.commands)),
            _spread(one),
            _state(one),
        ]
        for one in plans
    ]
    return console.Sheet(
        [
            ("plan", "left"),
            ("cluster", "left"),
            ("age", "right"),
            ("expires in", "right"),
            ("commands", "right"),
            ("spread", "right"),
            ("state", "left"),
        ],
        rows,
    )


def _spread(plan: Plan) -> str:
    if plan.spread_before is None or plan.spread_after is None:
        return "-"
    return f"{points(plan.spread_before)} → {points(plan.spread_after)}"


def _state(plan: Plan) -> str:
    decision = plan.decision
    if decision is None:
        return plan.state if plan.complete else f"{plan.state}, not complete"
    if decision.status is None:
        return f"{plan.state}, {_decided(decision)}, not answered"
    return f"{plan.state}, {_decided(decision)}"


def _decided(decision: PlanDecision) -> str:
    return f"{'approved' if decision.action == 'approve' else 'denied'} by {decision.by}"


def plan_lines(plan: Plan, now_ms: int) -> Iterator[str]:
    """A plan as text, line by line. `now_ms`: since the epoch."""
    left = f", expires in {age(plan.expires_at_ms - now_ms)}" if plan.state == "waiting" else ""
    yield f"plan {plan.id} of cluster {plan.cluster}: {_state(plan)}{left}"
    yield (
        f"  decided by {plan.strategy} in round {plan.round} of epoch {plan.epoch}, "
        f"{when(plan.ts)}, to be carried out before {when(plan.expires_at_ms)}"
    )
    if plan.spread_before is not None and plan.spread_after is not None:
        yield (
            f"  spread {points(plan.spread_before)} points before, {points(plan.spread_after)} "
            f"expected after its commands{counted_with(plan.counted)}"
        )
    for one in plan.commands:
        yield from (f"  {line}" for line in _command_lines(one, plan.counted))
    for decision in plan.attempts:
        yield f"  {_decision_line(decision)}"
    if plan.state == "waiting":
        yield f"  to decide: rebalancer plans approve {plan.id} --reason TEXT, or plans deny"


def _command_lines(planned: PlannedCommand, earlier: int) -> Iterator[str]:
    command = planned.command
    yield f"{instruction(command)}"
    yield f"  why: {command.text} [{command.code}]"
    yield from expected_usage(command, earlier)
    yield f"  outcome: {'none yet' if planned.outcome is None else in_short(planned.outcome)}"


def _decision_line(decision: PlanDecision) -> str:
    why = "" if decision.reason is None else f": {decision.reason}"
    answer = decision.status or "no executor has answered yet"
    because = f" ({decision.answer})" if decision.answer else ""
    return f"{_decided(decision)}, {when(decision.ts)}{why}; {answer}{because}"


def pause_lines(pauses: Mapping[str, PauseOrder], now_ms: int) -> Iterator[str]:
    """One line per cluster whose executor a record pauses. `now_ms`: since the epoch."""
    for cluster, order in sorted(pauses.items()):
        if order.paused:
            why = f": {order.reason}" if order.reason else ""
            yield (
                f"executor of {cluster}: paused by {order.by} {age(now_ms - order.ts)} ago{why}; "
                f"to resume: rebalancer plans resume --cluster {cluster}"
            )


def _pauses(pauses: Mapping[str, PauseOrder]) -> dict[str, Any]:
    return {
        cluster: {"by": one.by, "reason": one.reason, "ts": one.ts}
        for cluster, one in sorted(pauses.items())
        if one.paused
    }


def _as_object(plan: Plan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "cluster": plan.cluster,
        "epoch": plan.epoch,
        "round": plan.round,
        "ts": plan.ts,
        "expires_at_ms": plan.expires_at_ms,
        "state": plan.state,
        "complete": plan.complete,
        "spread": plan.spread_before,
        "spread_after": plan.spread_after,
        "counted": plan.counted,
        "decision": None if plan.decision is None else asdict(plan.decision),
        "attempts": [asdict(one) for one in plan.attempts],
        "commands": [
            {
                "command": json.loads(encode_command(one.command)),
                "digest": one.digest,
                "outcome": None if one.outcome is None else json.loads(encode_outcome(one.outcome)),
            }
            for one in plan.commands
        ],
    }
