"""The gate's rule: what of a cluster speaks against every move, and in which order."""

import pytest

from strategies.executor.gate_and_breaker import GateFacts, GateRules, gate_objection

RULES = GateRules(facts_ms=5_000, settle_ms=30_000)


def code(facts: GateFacts, rules: GateRules = RULES) -> str | None:
    found = gate_objection(facts, rules)
    return None if found is None else found.code


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (GateFacts("a:1", probes={"a:1": "reads", "b:1": "reads"}), None),
        (GateFacts(None), "gate-leader"),
        (GateFacts(None, "b:1 answered 500"), "gate-leader"),
        (GateFacts("a:1", probes={"a:1": "stuck"}), "gate-metadata"),
        (GateFacts("a:1", probes={"a:1": "reads", "b:1": "silent"}), "gate-silent"),
        (GateFacts("a:1", probes={"a:1": "reads", "b:1": "busy"}), "gate-busy"),
        (GateFacts("a:1", probes={"a:1": "reads"}, lost={"c:1": 29_999}), "gate-broker-lost"),
        (GateFacts("a:1", probes={"a:1": "reads"}, lost={"c:1": 30_000}), None),
        (GateFacts(None, probes={"b:1": "silent"}, lost={"c:1": 0}), "gate-leader"),
    ],
)
def test_the_first_reason_closes_it(facts: GateFacts, expected: str | None) -> None:
    assert code(facts) == expected


def test_without_probes_only_a_lost_broker_closes_it() -> None:
    rules = GateRules(facts_ms=0, settle_ms=30_000)
    assert code(GateFacts(None, probes={"a:1": "silent"}), rules) is None
    assert code(GateFacts(None, lost={"c:1": 5}), rules) == "gate-broker-lost"


def test_it_says_what_it_saw_and_how_long_it_stays_closed() -> None:
    found = gate_objection(GateFacts("a:1", lost={"c:1": 12_000}), RULES)
    assert found is not None
    assert (found.status, "c:1 has left the cluster 12 s ago" in found.text) == ("refused", True)
    assert "30 s after it left (executor.settle_ms)" in found.text
    silent = gate_objection(GateFacts("a:1", probes={"a:1": "silent"}), RULES)
    assert silent is not None
    assert "a:1 has not answered within 5 s" in silent.text
