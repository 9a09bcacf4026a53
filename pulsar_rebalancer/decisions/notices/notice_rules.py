"""Decides which notices a record, or its absence, causes: pure functions of what was notified
before, a record and the time.

A cluster has one condition: the state of its rounds if notices are wanted about it, `silent`, or
none. A notice follows when a condition lasts and differs from the one of the last notice
(decision 0225).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pulsar_rebalancer.decisions.explain.explanation_lines import when
from pulsar_rebalancer.decisions.log import DecisionRecord, LoggedCommand
from sinks.metrics.http_server_and_probes import code_of
from sinks.notices.delivery import Notice, NoticeCause
from strategies.cluster.model import Outcome, OutcomeStatus, Round
from strategies.executor.objections_to_approvals import ApprovedCommand, plan_id
from strategies.figures.texts_of_counts_names_and_ages import counted, counted_with, first_of
from strategies.figures.usage_after_moves import (
    changes,
    expected_spread,
    reported_spread,
    reported_usage,
)

#: The condition of a cluster that no notice is wanted about.
QUIET = ""
SILENT = "silent"
PLAN = "plan"
#: A cluster without a round for this number of `round.interval_ms` is silent.
SILENT_ROUNDS = 5
#: Clusters that are remembered; of more, those with the oldest rounds are forgotten.
MOST_CLUSTERS = 1_000
#: Clusters whose last round was this long before the first start are not silent, but gone.
_GONE_MS = 86_400_000
#: Commands and plans that are remembered per cluster until they are complete.
_MOST_COMMANDS, _MOST_PLANS = 5_000, 20
#: Reasons of outcomes that are remembered per cluster.
_MOST_REASONS = 100
#: Brokers above the rest that are named; the others are counted.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class NoticeRules:
    """Rules for notices. `kinds`: see `sinks.notices.settings.KINDS`; `settle_rounds`: a state
    lasts after this number of rounds in a row; `silent_ms`: time without a round after which a
    cluster is silent; `quiet_ms`: outcomes of one reason are not repeated within this time.
    """

    kinds: frozenset[str]
    settle_rounds: int = 5
    silent_ms: int = 315_000
    quiet_ms: int = 3_600_000
    link: str | None = None


class RoundPlan(Struct, frozen=True):
    """A round whose commands have not all been read. `commands`: their ids."""

    epoch: int
    round: int
    ts: int
    commands: list[str]
    cause: NoticeCause
    picture: str


class OutcomeNotices(Struct, frozen=True):
    """The last notice about outcomes of one reason: its time (ms), and later outcomes."""

    ts: int
    later: int = 0


class ClusterNotices(Struct, frozen=True):
    """The memory of a cluster.

    `epoch`, `round`, `ts`, `picture`, `cause`: of the newest round. `condition`, `since`, `rounds`:
    of the newest rounds in a row. `notified`: the condition of the last notice. `outcomes`: by kind
    and reason code. `plans`, `commands` (id → digest): what plans are made of, until they are
    complete.
    """

    epoch: int = 0
    round: int = 0
    ts: int = 0
    picture: str = ""
    cause: NoticeCause | None = None
    condition: str = QUIET
    since: int = 0
    rounds: int = 0
    notified: str = QUIET
    outcomes: dict[str, OutcomeNotices] = {}
    plans: list[RoundPlan] = []
    commands: dict[str, str] = {}


class NoticeMemory(Struct, frozen=True):
    """The memory of all clusters. `begun`: the time (ms) of the first start; older records
    are remembered and cause no notice by themselves.
    """

    begun: int
    clusters: dict[str, ClusterNotices] = {}

    def of(self, cluster: str) -> ClusterNotices:
        """The memory of a cluster; of an unknown one, an empty memory."""
        return self.clusters.get(cluster, ClusterNotices())

    def with_cluster(self, name: str, known: ClusterNotices) -> "NoticeMemory":
        """The memory with a changed cluster."""
        clusters = {**self.clusters, name: known}
        if len(clusters) > MOST_CLUSTERS:
            del clusters[min(clusters, key=lambda one: (clusters[one].ts, one))]
        return replace(self, clusters=clusters)


Decided = tuple[NoticeMemory, list[Notice]]


def after_records(
    memory: NoticeMemory, records: Iterable[DecisionRecord], rules: NoticeRules
) -> Decided:
    """The memory after these records, and the notices in their order. What people decide, and the
    answers to it, change nothing.
    """
    notices = list[Notice]()
    after: Mapping[type, Callable[[NoticeMemory, Any, NoticeRules], Decided]] = {
        Round: after_round,
        LoggedCommand: after_command,
        Outcome: after_outcome,
    }
    for one in records:
        if type(one) in after:
            memory, found = after[type(one)](memory, one, rules)
            notices += found
    return memory, notices


def after_round(memory: NoticeMemory, done: Round, rules: NoticeRules) -> Decided:
    """The memory with a round, and the notices that it causes. Repeated and older rounds change
    nothing.
    """
    before = memory.of(done.cluster)
    if (done.epoch, done.round) <= (before.epoch, before.round):
        return memory, []
    code = done.state.code if done.state is not None else QUIET
    condition = code if code in rules.kinds else QUIET
    same = condition == before.condition and before.rounds > 0
    known = replace(
        before,
        epoch=done.epoch,
        round=done.round,
        ts=done.ts,
        picture=picture_of(done),
        cause=_cause(done),
        condition=condition,
        since=before.since if same else done.ts,
        rounds=before.rounds + 1 if same else 1,
    )
    if done.ts < memory.begun:
        return memory.with_cluster(done.cluster, known), []
    found = list[Notice]()
    if condition != known.notified and known.rounds >= rules.settle_rounds:
        found.append(_changed(done.cluster, known, rules))
        known = replace(known, notified=condition)
    if PLAN in rules.kinds and done.commands:
        plan = RoundPlan(
            done.epoch, done.round, done.ts, list(done.commands), _cause(done), known.picture
        )
        plans = [*known.plans, plan][-_MOST_PLANS:]
        known, complete = _completed(done.cluster, replace(known, plans=plans), rules)
        found += complete
    return memory.with_cluster(done.cluster, known), found


def after_command(memory: NoticeMemory, published: LoggedCommand, rules: NoticeRules) -> Decided:
    """The memory with a command, and the notice about the plan that it completes."""
    command = published.command
    if PLAN not in rules.kinds or command.issued_at_ms < memory.begun:
        return memory, []
    known = memory.of(command.cluster)
    # Advice is in no plan: it has no digest.
    digest = "" if command.action == "throttle" else published.digest
    newest_first = {command.id: digest} | known.commands
    commands = dict(islice(newest_first.items(), _MOST_COMMANDS))
    known, found = _completed(command.cluster, replace(known, commands=commands), rules)
    return memory.with_cluster(command.cluster, known), found


def after_silence(memory: NoticeMemory, now_ms: int, rules: NoticeRules) -> Decided:
    """The memory and the notices about clusters without a new round. Call it when all present
    records have been processed.
    """
    found: list[Notice] = []
    if SILENT not in rules.kinds:
        return memory, found
    for name, known in memory.clusters.items():
        gone = known.ts < memory.begun - _GONE_MS
        late = now_ms - known.ts > rules.silent_ms
        if late and not gone and known.notified != SILENT:
            found.append(_silent(name, known, rules))
            silent = replace(known, condition=SILENT, since=known.ts, rounds=0, notified=SILENT)
            memory = memory.with_cluster(name, silent)
    return memory, found


def after_outcome(memory: NoticeMemory, outcome: Outcome, rules: NoticeRules) -> Decided:
    """The memory with an outcome, and the notice that it causes: for each reason, the first one in
    `quiet_ms`.
    """
    code = code_of(outcome.reason) or outcome.status
    kind = _kind(outcome.status, code)
    if kind not in rules.kinds or outcome.ts < memory.begun:
        return memory, []
    notices, known, key = list[Notice](), memory.of(outcome.cluster), f"{kind} {code}"
    last = known.outcomes.get(key, OutcomeNotices(outcome.ts - rules.quiet_ms))
    if outcome.ts - last.ts < rules.quiet_ms:
        newest = replace(last, later=last.later + 1)
    else:
        newest = OutcomeNotices(outcome.ts)
        notices.append(
            _of_outcome(kind, code, outcome, rules, later=last.later, picture=known.picture)
        )
    outcomes = {**known.outcomes, key: newest}
    if len(outcomes) > _MOST_REASONS:
        del outcomes[min(outcomes, key=lambda reason: (outcomes[reason].ts, reason))]
    return memory.with_cluster(outcome.cluster, replace(known, outcomes=outcomes)), notices


def _completed(
    cluster: str, known: ClusterNotices, rules: NoticeRules
) -> tuple[ClusterNotices, list[Notice]]:
    """Plans all of whose commands have been read become notices; both are forgotten."""
    complete = [one for one in known.plans if known.commands.keys() >= {*one.commands}]
    if not complete:
        return known, []
    used = {name for one in complete for name in one.commands}
    found = [_plan(cluster, one, known.commands, rules) for one in complete]
    rest = replace(
        known,
        plans=[one for one in known.plans if one not in complete],
        commands={name: digest for name, digest in known.commands.items() if name not in used},
    )
    return rest, [notice for notice in found if notice is not None]


def _kind(status: OutcomeStatus, code: str) -> str:
    """The kind of a notice about an outcome; empty if there is none."""
    if status == "failed":
        return "failed"
    return "lost-destination" if code == "elsewhere" else ""


def _cause(done: Round) -> NoticeCause:
    if done.state is None:
        return NoticeCause("unknown", f"a round of version {done.version}, which has no state", "")
    return NoticeCause(done.state.code, done.state.text, done.state.advice)


def _changed(cluster: str, known: ClusterNotices, rules: NoticeRules) -> Notice:
    """The condition lasts. Without a condition, the one of the last notice has ended."""
    since = f"since {when(known.since)} ({counted(known.rounds, 'round')})"
    cause = known.cause or NoticeCause("unknown", "", "")
    ended = known.notified if known.condition == QUIET else None
    title = (
        f"{cluster}: {known.condition} {since}"
        if ended is None
        else f"{cluster}: {ended} has ended, now {cause.code}, {since}"
    )
    return Notice(
        known.condition or "ended",
        cluster,
        title,
        known.ts,
        known.since,
        cause,
        ended=ended,
        picture=known.picture,
        link=rules.link,
    )


def _silent(cluster: str, known: ClusterNotices, rules: NoticeRules) -> Notice:
    limit = f"{rules.silent_ms / 1000:.0f} s"
    return Notice(
        SILENT,
        cluster,
        f"{cluster}: no round since {when(known.ts)}",
        # Not the present time: a repeated decision has the same id.
        known.ts + rules.silent_ms,
        known.ts,
        NoticeCause(
            SILENT,
            f"no newer round for more than {limit}",
            "Check with `rebalancer doctor` that `rebalancer run` and `rebalancer collect` run.",
        ),
        picture=f"in its last round: {known.picture}",
        link=rules.link,
    )


def _plan(
    cluster: str, plan: RoundPlan, digests: Mapping[str, str], rules: NoticeRules
) -> Notice | None:
    """The notice about a plan; None if it has only advice."""
    planned = [ApprovedCommand(name, digests[name]) for name in plan.commands if digests[name]]
    if not planned:
        return None
    return Notice(
        PLAN,
        cluster,
        f"{cluster}: round {plan.round} has a plan of {counted(len(planned), 'command')}",
        plan.ts,
        plan.ts,
        plan.cause,
        plan=plan_id(cluster, plan.epoch, plan.round, planned),
        picture=plan.picture,
        link=rules.link,
    )


def _of_outcome(
    kind: str, code: str, outcome: Outcome, rules: NoticeRules, *, later: int, picture: str
) -> Notice:
    what = "a command failed" if kind == "failed" else "a bundle went to another broker"
    more = f"; {later:,} more since the notice before" if later else ""
    text = f"{outcome.bundle}: {outcome.reason or outcome.status}"
    return Notice(
        kind,
        outcome.cluster,
        f"{outcome.cluster}: {what}{more}",
        outcome.ts,
        outcome.ts,
        NoticeCause(
            code, text, "See `rebalancer explain` with the command's id, and the executor's log."
        ),
        command=outcome.command_id,
        picture=picture or None,
        link=rules.link,
    )


def picture_of(done: Round) -> str:
    """`3 of 12 brokers above the rest: b1 82 %, b2 79 %, b3 78 %; lowest b9 31 %; 4 commands;
    spread 51 → 12 points`
    """
    ranked = sorted(reported_usage(done).items(), key=lambda one: (-one[1], one[0]))
    if not ranked:
        return f"{counted(len(done.stale), 'broker')} without fresh figures; none with usage"
    commands = [counted(len(done.commands), "command")] if done.commands else []
    return "; ".join([_heights(ranked), *commands, _spread(done)])


def _heights(ranked: list[tuple[str, float]]) -> str:
    if len(ranked) == 1:
        return f"1 broker: {_named(*ranked[0])}"
    above = _above(ranked)
    named = first_of([_named(*one) for one in above], _NAMED)
    lowest = _named(*ranked[-1])
    if not above:
        return f"highest of {len(ranked)} brokers {_named(*ranked[0])}; lowest {lowest}"
    return (
        f"{len(above)} of {counted(len(ranked), 'broker')} above the rest: {named}; lowest {lowest}"
    )


def _above(ranked: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The brokers above the widest gap between two neighbours; empty if they are the majority or
    there is no gap.
    """
    gaps = [higher[1] - lower[1] for higher, lower in pairwise(ranked)]
    place = max(range(len(gaps)), key=lambda at: gaps[at])
    many = 2 * (place + 1) > len(ranked)
    return [] if many or _percent(ranked[0][1]) == _percent(ranked[-1][1]) else ranked[: place + 1]


def _named(broker: str, usage: float) -> str:
    return f"{broker} {_percent(usage)} %"


def _spread(done: Round) -> str:
    now, after = _percent(reported_spread(done)), _percent(expected_spread(done))
    if not changes(done):
        return f"spread {now} points"
    return f"spread {now} → {after} points{counted_with(done.counted)}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f}"
