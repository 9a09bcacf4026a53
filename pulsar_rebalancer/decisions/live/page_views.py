"""The documents that a live page shows of a cluster: its state in words, its brokers now, its plan,
its health, and the history of its rounds.

Everything that depends on the viewer's clock is a time, which the page turns into an age.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Literal

from pulsar_rebalancer.decisions.explain.outcome_verdicts import in_short
from pulsar_rebalancer.decisions.intents import what_of
from pulsar_rebalancer.decisions.live.packed_rounds import PackedRound
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster, LiveDecisions, LiveSnapshot
from pulsar_rebalancer.decisions.log import DecisionLog, state_since
from pulsar_rebalancer.decisions.plans import pauses_of
from pulsar_rebalancer.decisions.read_status import INTERVALS, late_after_ms
from pulsar_rebalancer.decisions.skip_and_certificate_texts import proves_bound, sentences
from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Command, Outcome, Round
from strategies.executor.objections_to_approvals import PauseOrder
from strategies.figures.texts_of_counts_names_and_ages import counted, first_of
from strategies.figures.usage_after_moves import expected_spread, reported_spread
from strategies.round.commands_and_record import proof_of
from strategies.round.state_of_round import describe_planned_moves
from strategies.settings import RoundSettings

Document = dict[str, Any]
Answer = Literal["applied", "dry-run", "refused", "open", "expired", "advice"]
#: What happened to a command, in the order of the page's legend.
ANSWERS: tuple[Answer, ...] = ("applied", "open", "refused", "expired", "dry-run", "advice")
#: Lines of a list that a document names; it counts the others.
MOST_NAMED = 1_000
NO_ROUND = (
    "No round yet. The first collection pass closes the first one, as soon as the job runs: Spark "
    "takes about 20 seconds to start. Without a job, start `rebalancer run` with these settings."
)
NO_RECORD = (
    "No cluster yet. Start `rebalancer collect` and then `rebalancer run` with the same topics.* "
    "settings; `rebalancer doctor` checks them. Records older than a day are not shown."
)


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """Settings that say what is late: `round` of the job, `pass_interval_ms` of the collector."""

    round: RoundSettings = RoundSettings()
    pass_interval_ms: int = 60_000


def clusters(snapshot: LiveSnapshot, settings: ViewSettings) -> Document:
    """All clusters, each with its state, and the topics that cannot be read."""
    return {
        "version": snapshot.version,
        "clusters": [_in_list(one, settings) for one in snapshot.clusters.values()],
        "topics": [asdict(one) for one in snapshot.topics],
        "empty": f"{NO_RECORD} {_starts(snapshot.starting)}" if snapshot.starting else NO_RECORD,
        "left_out": snapshot.left_out,
        "skipped": snapshot.skipped,
    }


def _in_list(one: LiveCluster, settings: ViewSettings) -> Document:
    newest = newest_of(one.decisions)
    return {
        "cluster": one.cluster,
        "version": one.version,
        "decided": one.decisions.version,
        "state": None if newest is None or newest.state is None else newest.state.code,
        "late_after_ms": None if newest is None else late_after_ms(newest, settings.round),
    }


def newest_of(decisions: LiveDecisions) -> Round | None:
    """The newest round, None before the first."""
    return decisions.rounds[-1].round if decisions.rounds else None


def overview(
    one: LiveCluster, settings: ViewSettings, paused: bool | None, starting: str = ""
) -> Document:
    """The state of a cluster in words, its waiting plan, and the health of its processes.
    `starting`: what a job that starts says.
    """
    decisions, newest = one.decisions, newest_of(one.decisions)
    since_ms, same = state_since(packed.round for packed in reversed(decisions.rounds))
    return {
        "cluster": one.cluster,
        "version": one.version,
        "decided": decisions.version,
        "empty": _no_round(starting) if newest is None else "",
        "state": None if newest is None else _state(newest),
        "paused": _paused(one, paused),
        "since_ms": since_ms,
        "same": same,
        "newest": None if newest is None else _newest(newest),
        "late_after_ms": None if newest is None else late_after_ms(newest, settings.round),
        "kept": len(decisions.rounds),
        "waiting": sum(
            answer_of(given, decisions.log, one.now_ms) == "open"
            for given in decisions.log.commands
        ),
        "health": [
            _collector(one, settings),
            _job(one, settings, starting),
            _executor(one, _paused(one, paused)),
        ],
        "rejected": dict(one.rejected),
        "intents": [] if newest is None else [_intent(status) for status in newest.intents],
    }


def _intent(status: IntentStatus) -> Document:
    """A drain or a roll, as its newest round says."""
    return {
        "id": status.id,
        "what": what_of(status),
        "state": status.state,
        "text": status.text,
        "advice": status.advice,
        "by": status.by,
        "reason": status.reason,
        "since_ms": status.since_ms,
        "until_ms": status.until_ms,
        "left": status.left,
        "total": status.total,
        "left_ms": status.left_ms,
        "phases": dict(sorted(status.phases.items())),
    }


def pause_of_cluster(one: LiveCluster) -> PauseOrder | None:
    """The newest accepted pause or resume, None without any."""
    return pauses_of(one.decisions.log).get(one.cluster)


def _paused(one: LiveCluster, file: bool | None) -> str:
    """Says who or what pauses the executor; empty if nothing does. `file`: whether the
    pause file of this machine exists.
    """
    order = pause_of_cluster(one)
    if order is not None and order.paused:
        return f"{order.by} paused the executor: {order.reason}"
    return "the pause file exists on this machine" if file else ""


def _state(newest: Round) -> Document:
    if newest.state is None:
        text = f"the round has no state: it comes from version {newest.version} of the job"
        return {"code": "unknown", "text": text, "advice": "Upgrade the job."}
    return {
        "code": newest.state.code,
        "text": newest.state.text,
        "advice": newest.state.advice,
    }


def _newest(newest: Round) -> Document:
    bounds = newest.certificate
    return {
        "round": newest.round,
        "epoch": newest.epoch,
        "ts": newest.ts,
        "strategy": newest.strategy,
        "version": newest.version,
        "brokers": len(newest.brokers),
        "stale": len(newest.stale),
        "spread": reported_spread(newest),
        "spread_after": expected_spread(newest),
        "counted": newest.counted,
        "best_spread": bounds.best_spread if bounds is not None and proves_bound(bounds) else None,
        "proves": _proves(newest),
    }


def _proves(newest: Round) -> list[str]:
    """Sentences about what the round proves, after what it counts as done."""
    found = sentences(proof_of(newest))
    if not (found and newest.counted):
        return found
    return [f"In this round, {describe_planned_moves(newest.counted)}.", *found]


def brokers(one: LiveCluster) -> Document:
    """The brokers of the newest round, the busiest first, in permille of their limits: `usage` as
    reported, `after` as expected, with `counted` earlier moves that reports do not show yet.
    """
    decisions = one.decisions
    if not decisions.rounds:
        return {"version": decisions.version, "names": [], "usage": [], "after": [], "stale": {}}
    newest = decisions.rounds[-1]
    judged = [
        (float(usage), float(after), name)
        for name, usage, after in zip(newest.places.names, newest.usage, newest.after, strict=True)
        if not isnan(usage)
    ]
    judged.sort(key=lambda row: (-row[0], row[2]))
    return {
        "version": decisions.version,
        "round": newest.round.round,
        "counted": newest.round.counted,
        "names": [name for _, _, name in judged],
        "usage": [_permille(usage) for usage, _, _ in judged],
        "after": [_permille(usage if isnan(after) else after) for usage, after, _ in judged],
        "stale": dict([*sorted(newest.round.stale.items())][:MOST_NAMED]),
        "stale_total": len(newest.round.stale),
    }


def _permille(usage: float) -> int:
    return round(1_000 * min(max(usage, 0.0), 1e6))


def history(one: LiveCluster, after: int = 0) -> Document:
    """The rounds that changed after version `after`, newest first."""
    decisions = one.decisions
    changed = [packed for packed in reversed(decisions.rounds) if packed.changed > after]
    oldest = decisions.rounds[0].key if decisions.rounds else None
    return {
        "version": decisions.version,
        "oldest": oldest,
        "rounds": [_in_history(packed, decisions.log, one.now_ms) for packed in changed],
    }


def _in_history(one: PackedRound, log: DecisionLog, now_ms: int) -> Document:
    done = one.round
    given = log.by_round.get((done.cluster, *one.key), ())
    answers = Counter(answer_of(command, log, now_ms) for command in given)
    state = _state(done)
    return {
        "epoch": done.epoch,
        "round": done.round,
        "ts": done.ts,
        "state": state["code"],
        "text": state["text"],
        "commands": len(done.commands),
        "answers": {name: answers[name] for name in ANSWERS if answers[name]},
        "spread": reported_spread(done),
        "spread_after": expected_spread(done),
    }


def answer_of(command: Command, log: DecisionLog, now_ms: int) -> Answer:
    """Says in one word what happened to a command."""
    outcome = log.outcome_of(command)
    if command.action == "throttle":
        return "advice"
    if outcome is None:
        return "open" if now_ms < command.expires_at_ms else "expired"
    if outcome.status in ("applied", "already-done"):
        return "applied"
    if outcome.status in ("dry-run", "expired"):
        return outcome.status
    return "refused"


def _health(name: str, ts: int | None, late_ms: int, *, fresh: str, late: str) -> Document:
    """`ts`: of the newest sign of life; the page shows `late` once `late_ms` have passed since."""
    after = None if ts is None else ts + late_ms
    return {"name": name, "ts": ts, "late_after_ms": after, "fresh": fresh, "late": late}


def _collector(one: LiveCluster, settings: ViewSettings) -> Document:
    sweep, late_ms = one.sweep, INTERVALS * settings.pass_interval_ms
    late = "No newer report. Check with `rebalancer doctor` that `rebalancer collect` runs."
    if sweep is None:
        fresh = "Reports arrive; no collection pass is complete yet."
        return _health("collector", one.report_ms, late_ms, fresh=fresh, late=late)
    missing = [f"{name} ({why})" for name, why in sorted(sweep.missing.items())]
    fresh = f"{counted(len(sweep.brokers), 'broker')} answered the newest pass"
    if missing:
        fresh += f"; without an answer: {first_of(missing, 3)}"
    found = _health("collector", sweep.ts, late_ms, fresh=f"{fresh}.", late=late)
    return {**found, "doubt": bool(missing)}


def _starts(line: str) -> str:
    return f"The job starts: {line}."


def _no_round(starting: str) -> str:
    return f"No round yet. {_starts(starting)}" if starting else NO_ROUND


def _job(one: LiveCluster, settings: ViewSettings, starting: str) -> Document:
    newest = newest_of(one.decisions)
    late = "No newer round. Check with `rebalancer doctor` that `rebalancer run` and `collect` run."
    late = _starts(starting) if starting else late
    late_ms = INTERVALS * settings.round.interval_ms + settings.round.lateness_ms
    if newest is None:
        return _health("job", None, late_ms, fresh="", late=_no_round(starting))
    fresh = f"Round {newest.round} of epoch {newest.epoch}, strategy {newest.strategy}."
    return _health("job", newest.ts, late_ms, fresh=fresh, late=late)


def _executor(one: LiveCluster, paused: str) -> Document:
    """The executor writes only outcomes, so that its age alone is no sign: unanswered commands
    are.
    """
    log = one.decisions.log
    answered = [outcome for given in log.commands if (outcome := log.outcome_of(given)) is not None]
    newest = max(answered, key=lambda outcome: outcome.ts, default=None)
    text, doubt = _executor_text(one, newest, paused)
    found = _health("executor", None if newest is None else newest.ts, 0, fresh=text, late=text)
    return {**found, "late_after_ms": None, "doubt": doubt}


def _executor_text(one: LiveCluster, newest: Outcome | None, paused: str) -> tuple[str, bool]:
    log = one.decisions.log
    commands = [given for given in log.commands if given.action != "throttle"]
    last = max((given.issued_at_ms for given in commands), default=0)
    unanswered = [
        given
        for given in commands
        if given.issued_at_ms == last and answer_of(given, log, one.now_ms) == "expired"
    ]
    if paused:
        return f"Paused, it refuses all commands: {paused}.", True
    if unanswered and log.outcome_of(unanswered[0]) is None:
        text = f"{counted(len(unanswered), 'command')} of the newest plan expired without an answer"
        return f"{text}. Start `rebalancer execute`.", True
    if newest is None:
        return "No outcome yet: it has had nothing to apply, or does not run.", False
    if newest.status == "dry-run":
        return "A dry run: it changes nothing. `rebalancer execute --apply` moves bundles.", True
    return _answers(log, log.by_id[newest.command_id])


def _answers(log: DecisionLog, command: Command) -> tuple[str, bool]:
    """Says what happened to the commands of the round that published this one."""
    given = [
        outcome
        for other in log.by_round[command.cluster, command.epoch, command.round]
        if (outcome := log.outcome_of(other)) is not None
    ]
    counts = Counter(outcome.status for outcome in given)
    text = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    amiss = next((one for one in given if one.status in ("failed", "refused", "expired")), None)
    why = "" if amiss is None else f"; {amiss.bundle}: {in_short(amiss)}"
    return f"Of the commands of round {command.round}: {text}{why}.", amiss is not None


def names_of(rounds: Sequence[PackedRound]) -> list[str]:
    """All brokers of these rounds, in the order in which they first appear."""
    places = dict.fromkeys(one.places for one in rounds)  # rounds share them
    return list(dict.fromkeys(name for one in places for name in one.names))
