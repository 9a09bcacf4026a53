"""Decides whether a move may begin now, from what the cluster looks like: a move that begins while
the metadata store does not answer, or while brokers come and go, ends worse than no move.

Takes facts, returns the reason against every move or None. Asks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strategies.executor.admission import Objection

#: What a probe of a broker has shown: reads: it has read metadata; stuck: it answers, but not reads
#: of metadata; busy: it answers at once that it cannot now; silent: it does not answer.
ProbeResult = Literal["reads", "stuck", "busy", "silent"]


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
    return _closed(
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
        return _closed(code, text)
    return None


def _lost(lost: Mapping[str, int], rules: GateRules) -> Objection | None:
    for broker, ago_ms in sorted(lost.items()):
        if ago_ms < rules.settle_ms:
            return _closed(
                "gate-broker-lost",
                f"{broker} has left the cluster {ago_ms / 1000:.0f} s ago, and its bundles are "
                f"being placed; moves begin again {rules.settle_ms / 1000:g} s after it left "
                "(executor.settle_ms)",
            )
    return None


def _closed(code: str, text: str) -> Objection:
    return Objection("refused", code, text)
