"""Decides whether a move may begin now, from what the cluster looks like and how moves ended: one
that begins while the metadata store does not answer, or while brokers come and go, ends worse than
no move.

The gate takes facts about the cluster, and asks nothing. The breaker takes the results of moves: k
failures within some minutes open it, it pauses every move for a while, then one move is tried;
success closes it, failure opens it again. Its state follows from the list of results alone, so that
a process that starts knows it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from strategies.cluster.model import OutcomeStatus
from strategies.executor.admission import Objection

#: What a probe of a broker has shown: reads: it has read metadata; stuck: it answers, but not reads
#: of metadata; busy: it answers at once that it cannot now; silent: it does not answer.
ProbeResult = Literal["reads", "stuck", "busy", "silent"]
#: Codes of outcomes that show a fault of the cluster, and not of one bundle or of one command.
_FAULTS = frozenset(
    {
        "unanswered",
        "broker-unavailable",
        "refused-by-broker",
        "cluster-silent",
        "cluster-error",
        "interrupted",
        "unverified",
        "unowned",
    }
)


@dataclass(frozen=True, slots=True)
class GateRules:
    """`facts_ms`: largest age of a probe, and longest wait for one, 0 = no probes; `settle_ms`: how
    long no move begins after a broker was lost, 0 = no wait.
    """

    facts_ms: int = 0
    settle_ms: int = 0


@dataclass(frozen=True, slots=True)
class GateFacts:
    """`leader`: id of the leader, None without one; `leader_error`: why it is not known, empty if
    it is; `probes`: broker → what its probe has shown, the leader and those that the move concerns;
    `lost`: broker → ms since it has left the list of brokers; `why`: broker → what came of a probe
    that failed, as a sentence.
    """

    leader: str | None = None
    leader_error: str = ""
    probes: Mapping[str, ProbeResult] | None = None
    lost: Mapping[str, int] | None = None
    why: Mapping[str, str] | None = None


def gate_objection(facts: GateFacts, rules: GateRules) -> Objection | None:
    """The first reason against every move; None while the gate is open. The leader comes first:
    without it no broker can say where a bundle goes.
    """
    if rules.facts_ms > 0:
        found = _no_leader(facts) or _no_answer(facts, rules)
        if found is not None:
            return found
    return _lost(facts.lost or {}, rules)


def _no_leader(facts: GateFacts) -> Objection | None:
    if facts.leader is not None:
        return None
    why = f" ({facts.leader_error})" if facts.leader_error else ""
    return _refused(
        "gate-leader",
        f"no broker says which broker leads the cluster{why}; a bundle that is unloaded now may "
        "stay without an owner; check the brokers and the metadata store",
    )


#: Result of a probe that failed → code, and what is said without the error of its call.
_FAILED_PROBES: Mapping[ProbeResult, tuple[str, str]] = {
    "stuck": ("gate-metadata", "has not finished a read of metadata"),
    "busy": ("gate-busy", "has not had time"),
    "silent": ("gate-silent", "has not answered"),
}


def _no_answer(facts: GateFacts, rules: GateRules) -> Objection | None:
    """In the words of the call that failed: a broker that refuses at once is not silent."""
    for broker, result in sorted((facts.probes or {}).items()):
        if result == "reads":
            continue
        code, otherwise = _FAILED_PROBES[result]
        why = (facts.why or {}).get(
            broker, f"{broker} {otherwise} within {rules.facts_ms / 1000:g} s"
        )
        text = (why if broker in why else f"{broker}: {why}").rstrip(".")
        if result == "stuck":
            text = (
                f"{broker} answers, but not reads of metadata ({text}): check the metadata store, "
                "then the broker"
            )
        return _refused(code, text)
    return None


def _lost(lost: Mapping[str, int], rules: GateRules) -> Objection | None:
    for broker, ago_ms in sorted(lost.items()):
        if ago_ms < rules.settle_ms:
            return _refused(
                "gate-broker-lost",
                f"{broker} has left the cluster {ago_ms / 1000:.0f} s ago, and its bundles are "
                f"being placed; moves begin again {rules.settle_ms / 1000:g} s after it left "
                "(executor.settle_ms)",
            )
    return None


def _refused(code: str, text: str) -> Objection:
    return Objection("refused", code, text)


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """`failures` within `within_ms` open the breaker for `pause_ms`; 0 failures = no breaker."""

    failures: int = 0
    within_ms: int = 600_000
    pause_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class MoveResult:
    """A move that was tried, and whether the cluster failed it. `at_ms`: ms since the epoch."""

    at_ms: int
    failed: bool


@dataclass(frozen=True, slots=True)
class BreakerState:
    """closed: moves go on. open: none begins until `until_ms`. trying: one move decides.
    `failures`: those that opened it.
    """

    code: Literal["closed", "open", "trying"] = "closed"
    until_ms: int = 0
    failures: int = 0


CLOSED = BreakerState()


def result_of(
    status: OutcomeStatus, reason: str | None, at_ms: int, *, is_move: bool = True
) -> MoveResult | None:
    """What an outcome says about the cluster; None if nothing: the command was refused, by us or by
    a broker that does not do such a thing, or its bundle was no longer what it was.

    `is_move`: extensible brokers refuse a split that finds no place to cut with the status of a
    fault (500), so that this answer says nothing about a split.
    """
    code = (reason or "").partition(":")[0]
    if code == "refused-by-broker" and not is_move:
        return None
    if code in _FAULTS:
        return MoveResult(at_ms, failed=True)
    return MoveResult(at_ms, failed=False) if status == "applied" else None


def breaker_state(results: Sequence[MoveResult], rules: BreakerRules, now_ms: int) -> BreakerState:
    """The state after these results (oldest first). Those of a clock that was ahead are left out:
    an open breaker would stay open until then.
    """
    if rules.failures == 0:
        return CLOSED
    state, recent = CLOSED, list[int]()
    for result in results:
        if result.at_ms > now_ms:
            continue
        state = _after_pause(state, result.at_ms)
        if not result.failed:
            # While the breaker is open, a success is of a move that had begun before.
            if state.code == "trying":
                state, recent = CLOSED, []
            continue
        recent = [at for at in recent if at > result.at_ms - rules.within_ms] + [result.at_ms]
        if state.code == "trying" or (state.code == "closed" and len(recent) >= rules.failures):
            state = BreakerState("open", result.at_ms + rules.pause_ms, len(recent))
    return _after_pause(state, now_ms)


def breaker_objection(state: BreakerState, rules: BreakerRules, now_ms: int) -> Objection | None:
    """The objection of an open breaker to every move; None if it is closed, or waits for one move
    to be tried.
    """
    if state.code != "open":
        return None
    left_s = max(0, state.until_ms - now_ms) / 1000
    return _refused(
        "breaker-open",
        f"{state.failures} moves have failed within {rules.within_ms / 60_000:g} min, so the "
        f"executor pauses; in {left_s:.0f} s it tries one move; check the brokers and the metadata "
        "store",
    )


#: The objection to every other move while one is tried.
BEING_TRIED = _refused(
    "breaker-open", "one move is being tried after failures; if it succeeds, the others go on"
)


def _after_pause(state: BreakerState, now_ms: int) -> BreakerState:
    if state.code == "open" and now_ms >= state.until_ms:
        return BreakerState("trying", state.until_ms, state.failures)
    return state
