"""The screen of `rebalancer status`: newest round, what to do, last reports, last commands, pause
and rejected records of each cluster, line by line and as a JSON document.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from pulsar_rebalancer.decisions.explain.explanation_lines import points, when
from pulsar_rebalancer.decisions.explain.outcome_verdicts import in_short
from pulsar_rebalancer.decisions.plans import Plan
from pulsar_rebalancer.decisions.read_status import ClusterStatus, Pause, Status, late_after_ms
from pulsar_rebalancer.decisions.skip_and_certificate_texts import describe_intents, proves_bound
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.cluster.intent_records_and_states import LASTING
from strategies.cluster.model import Command, Outcome, Round
from strategies.cluster.round_figures import RoundState
from strategies.executor.objections_to_approvals import DONE
from strategies.figures.texts_of_counts_names_and_ages import age, counted, counted_with, first_of
from strategies.figures.usage_after_moves import changes, expected_spread, reported_spread
from strategies.ordered_sum import ordered_sum
from strategies.round.participating_brokers import TO_MEND
from strategies.round.state_of_round import reason_of
from strategies.settings import RoundSettings

_NO_ROUND = (
    "no round yet. Start `rebalancer run`, or wait for its first round: the first sweep closes it; "
    "`rebalancer doctor` checks the job."
)
_LATE = "no newer round: check with `rebalancer doctor` that `rebalancer run` and `collect` run"
#: Brokers that did not answer, and codes of rejected records, that a line names.
_NAMED = 3
#: A time that is further ahead than this is another clock's.
_AHEAD_MS = 60_000


def status_lines(found: Status, pause: Pause, now_ms: int, rounds: RoundSettings) -> Iterator[str]:
    """The screen, line by line. `now_ms`: since the epoch."""
    for one in found.clusters:
        yield from _cluster_lines(one, now_ms, rounds)
        yield ""
    yield _pause_line(pause)
    if found.rejected:
        yield f"rejected records that name no cluster: {_counts(found.rejected)}"


def _cluster_lines(one: ClusterStatus, now_ms: int, rounds: RoundSettings) -> Iterator[str]:
    newest, plan = one.newest, one.undecided
    lines = [_NO_ROUND] if newest is None else [*_round_lines(one, newest, now_ms, rounds)]
    if plan is not None:
        asked = _asked(plan)
        left = age(plan.expires_at_ms - now_ms)
        lines[0] = f"the newest round: {lines[0]}"
        lines = [f"waiting: {asked.text}", f"{asked.advice} It expires in {left}.", *lines]
    yield f"cluster {one.cluster}: {lines[0]}"
    yield from (f"  {line}" for line in lines[1:])
    yield f"  {_reports(one, now_ms)}"
    yield from (f"  {line}" for line in _approval_lines(one, now_ms))
    yield "  commands:" if one.commands else "  commands: none yet"
    yield from (f"    {_command(*given, now_ms)}" for given in one.commands)
    yield f"  rejected: {_counts(one.rejected) or 'no record in the last hour'}"


def _asked(plan: Plan) -> RoundState:
    """The state of a cluster whose plan no person has decided."""
    return RoundState(
        "waiting",
        f"approval of plan {plan.id} with {counted(len(plan.commands), 'command')}",
        f"Approve it with `rebalancer plans approve {plan.id} --reason TEXT`, or deny it; "
        f"`rebalancer plans show {plan.id}` lists its commands.",
    )


def _approval_lines(one: ClusterStatus, now_ms: int) -> Iterator[str]:
    """Plans that wait for a person or for the answer to one, and the pause by record."""
    for plan in one.plans[:_NAMED]:
        waits = "waits for approval"
        if plan.decision is not None:
            waits = f"is {DONE[plan.decision.action]} by {plan.decision.by}, without an answer yet"
        yield (
            f"plan {plan.id} {waits}: {counted(len(plan.commands), 'command')}, "
            f"expires in {age(plan.expires_at_ms - now_ms)}; see `rebalancer plans show {plan.id}`"
        )
    if len(one.plans) > _NAMED:
        yield f"{len(one.plans) - _NAMED} more plans wait; see `rebalancer plans list`"
    if one.pause is not None and one.pause.paused:
        why = f": {one.pause.reason}" if one.pause.reason else ""
        yield (
            f"executor paused by {one.pause.by}, {_ago(one.pause.ts, now_ms)}{why}; to resume: "
            "`rebalancer plans resume`"
        )


def _round_lines(
    one: ClusterStatus, newest: Round, now_ms: int, rounds: RoundSettings
) -> Iterator[str]:
    late = now_ms > late_after_ms(newest, rounds)
    state, was = newest.state, "was " if late else ""
    code = f"without a state (a round of version {newest.version})" if state is None else state.code
    yield f"{was}{code}"
    if late:
        yield f"{_LATE}."
    if state is not None and one.since_ms is not None:
        yield f"{state.text}."
        yield state.advice
        yield (
            f"since {when(one.since_ms)} ({counted(one.rounds, 'round')}); newest round "
            f"{newest.round} of epoch {newest.epoch}, {_ago(newest.ts, now_ms)}"
        )
    else:
        yield f"newest round {newest.round} of epoch {newest.epoch}, {_ago(newest.ts, now_ms)}"
    yield _spread(newest)
    yield from (reason_of(skip) for skip in newest.skips if skip.code in TO_MEND)
    yield from describe_intents([one for one in newest.intents if one.state in LASTING])


def _spread(newest: Round) -> str:
    spread = f"spread {points(reported_spread(newest))} points in that round"
    if changes(newest):
        after = points(expected_spread(newest))
        spread += f", {after} expected after its commands{counted_with(newest.counted)}"
    bounds = newest.certificate
    if bounds is None or bounds.best_spread is None or not proves_bound(bounds):
        return spread
    return f"{spread}; whole bundles can reach {points(bounds.best_spread)} or more"


def _reports(one: ClusterStatus, now_ms: int) -> str:
    if one.report_ms is None and one.sweep is None:
        return (
            "no report published in the last hour. Start `rebalancer collect`; `rebalancer doctor` "
            "checks the brokers."
        )
    report = "no report" if one.report_ms is None else f"report {_ago(one.report_ms, now_ms)}"
    if one.sweep is None:
        return f"newest {report}; no sweep in the last hour"
    missing = [f"{name} ({why})" for name, why in sorted(one.sweep.missing.items())]
    absent = f", without an answer: {first_of(missing, _NAMED)}" if missing else ""
    answered = counted(len(one.sweep.brokers), "broker")
    return f"newest {report}; newest sweep {_ago(one.sweep.ts, now_ms)}: {answered}{absent}"


def _command(command: Command, outcome: Outcome | None, now_ms: int) -> str:
    to = f" to {command.destination}" if command.destination is not None else ""
    if command.action == "throttle":
        verdict = "advice, which executors do not apply"
    elif outcome is not None:
        verdict = in_short(outcome)
    elif now_ms < command.expires_at_ms:
        verdict = "no outcome yet"
    else:
        verdict = "no outcome: no executor answered before it expired"
    what = f"{command.action} {command.bundle} of {command.source}{to}"
    why = f", because {command.text}" if "intent" in command.evidence else ""
    return f"{when(command.issued_at_ms)} {what}{why}: {verdict}"


def _pause_line(pause: Pause) -> str:
    if pause.exists is None:
        return f"executor: unknown, because this user may not look for {pause.file}"
    if pause.exists:
        return (
            f"executor: paused: {pause.file} exists, so an executor on this machine refuses all "
            "commands; delete the file to continue"
        )
    return f"executor: not paused on this machine ({pause.file} does not exist)"


def _counts(rejected: Mapping[str, int]) -> str:
    if not rejected:
        return ""
    named = ", ".join(f"{count} {code}" for code, count in [*rejected.items()][:_NAMED])
    more = f" and {len(rejected) - _NAMED} more reasons" if len(rejected) > _NAMED else ""
    return f"{counted(ordered_sum(rejected.values()), 'record')} in the last hour: {named}{more}"


def _ago(ts: int, now_ms: int) -> str:
    if ts > now_ms + _AHEAD_MS:
        return f"{age(ts - now_ms)} ahead of this machine's clock"
    return f"{age(now_ms - ts)} ago"


def as_document(found: Status, pause: Pause, now_ms: int, rounds: RoundSettings) -> dict[str, Any]:
    """The body of the JSON document. `paused`: null = unknown; `late`: as on the screen."""
    return {
        "now_ms": now_ms,
        "executor": {"pause_file": str(pause.file), "paused": pause.exists},
        "clusters": [_as_object(one, now_ms, rounds) for one in found.clusters],
        "rejected": dict(found.rejected),
    }


def _as_object(one: ClusterStatus, now_ms: int, rounds: RoundSettings) -> dict[str, Any]:
    newest = None if one.newest is None else json.loads(encode_round(one.newest))
    sweep, state = one.sweep, None if newest is None else newest.get("state")
    if one.undecided is not None:
        state = asdict(_asked(one.undecided))
    return {
        "cluster": one.cluster,
        "state": state,
        "late": one.newest is not None and now_ms > late_after_ms(one.newest, rounds),
        "since_ms": one.since_ms,
        "rounds": one.rounds,
        "round": newest,
        "report_ms": one.report_ms,
        "sweep": None
        if sweep is None
        else {"ts": sweep.ts, "brokers": list(sweep.brokers), "missing": dict(sweep.missing)},
        "commands": [
            {
                "command": json.loads(encode_command(command)),
                "outcome": None if outcome is None else json.loads(encode_outcome(outcome)),
            }
            for command, outcome in one.commands
        ],
        "rejected": dict(one.rejected),
        "waiting_plans": [
            {"id": plan.id, "commands": len(plan.commands), "expires_at_ms": plan.expires_at_ms}
            for plan in one.plans
        ],
        "paused_by": None
        if one.pause is None or not one.pause.paused
        else {"by": one.pause.by, "reason": one.pause.reason, "ts": one.pause.ts},
    }
