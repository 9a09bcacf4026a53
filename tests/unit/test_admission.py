"""Objections to a command: each has its own code, and they come in a fixed order."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sinks.executor.settings import ExecutorSettings, admission_rules, longest_step_s, pause_file
from strategies.errors import SettingsError
from strategies.executor import admission
from strategies.filters.policies import PoliciesView, read_policies
from tests.control_topic import command
from tests.world.placement import policy

NOON = 12 * 3_600_000
MOVE = command(
    "t/ns/0x00000000_0x80000000",
    "a:1",
    "b:1",
    epoch=3,
    issued_at_ms=NOON - 1000,
    expires_at_ms=NOON + 1000,
)
NOW = admission.CommandFacts(NOON, newest_epoch=3)


def told(objection: admission.Objection | None) -> str:
    """Status and code; empty without an objection."""
    return "" if objection is None else f"{objection.status} {objection.code}"


def considered(
    facts: Mapping[str, Any] = {}, move: Mapping[str, Any] = {}, rules: Mapping[str, str] = {}
) -> str:
    """The objection to the command at noon, each of the three changed as given."""
    given = admission_rules(ExecutorSettings(**rules))  # type: ignore[arg-type]
    return told(admission.may_be_considered(replace(MOVE, **move), replace(NOW, **facts), given))


def applied(
    owner: str | None,
    brokers: Sequence[str] = ("a:1", "b:1", "c:1"),
    policies: PoliciesView = PoliciesView(),
    *,
    exists: bool = True,
    **move: Any,
) -> str:
    """The objection to carrying it out in this cluster."""
    facts = admission.ClusterFacts(tuple(brokers), owner, policies, exists=exists)
    return told(admission.may_be_applied(replace(MOVE, **move), facts))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ""),
        ({"signature": "signed", "earlier": "dry-run", "newest_epoch": 0}, ""),
        ({"signature": "unsigned"}, "refused unsigned"),
        ({"signature": "wrong"}, "refused wrong-signature"),
        ({"newest_epoch": 4}, "refused older-epoch"),
        ({"now_ms": NOON + 999}, ""),
        ({"now_ms": NOON + 1000}, "expired expired"),
        ({"now_ms": NOON - 301_000}, ""),
        ({"now_ms": NOON - 301_001}, "refused from-the-future"),
        ({"earlier": "applied"}, "already-done replayed"),
        ({"earlier": "already-done"}, "already-done replayed"),
        ({"earlier": "refused"}, "refused replayed"),
        ({"earlier": "failed"}, "refused replayed"),
        ({"earlier": "expired"}, "expired replayed"),
        ({"earlier": "expired", "now_ms": NOON + 90_000}, "expired replayed"),
        ({"earlier": "applied", "now_ms": NOON + 90_000}, "already-done replayed"),
        ({"earlier": "applied", "newest_epoch": 4}, "already-done replayed"),
        ({"paused": True}, "refused paused"),
    ],
)
def test_what_is_known_of_the_command(facts: dict[str, object], expected: str) -> None:
    assert considered(facts) == expected


def test_forgery_is_told_before_everything_else_and_the_pause_last() -> None:
    late = {"now_ms": NOON + 5000, "newest_epoch": 9, "paused": True, "signature": "signed"}
    again = late | {"earlier": "applied"}
    nothing_allowed = {"deny": "*", "windows": "01:00-02:00"}
    standings = again | {"signature": "wrong"}, again, late, {"paused": True}
    codes = [considered(one, rules=nothing_allowed).partition(" ")[2] for one in standings]
    assert codes == ["wrong-signature", "replayed", "older-epoch", "namespace-denied"]


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ({"action": "throttle"}, "advice"),
        ({"destination": None}, "no-destination"),
        ({"bundle": "pulsar/a:1/0x00000000_0xffffffff"}, "system-bundle"),
        ({"bundle": "pulsar/c/a:1/0x00000000_0xffffffff"}, "system-bundle"),
        ({"bundle": "sla-monitor/a:1/0x00000000_0xffffffff"}, "system-bundle"),
        ({"bundle": "pulsar/system/0x00000000_0xffffffff"}, "system-bundle"),
        ({"bundle": "t/../0x00000000_0xffffffff"}, "namespace-name"),
        ({"bundle": "t/c/ns/0x00000000_0xffffffff"}, "namespace-name"),
    ],
)
def test_what_is_never_carried_out(move: dict[str, object], code: str) -> None:
    assert considered(move=move) == f"refused {code}"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"allow": "t/ns"}, ""),
        ({"allow": "x/*, t/*"}, ""),
        ({"allow": "*"}, ""),
        ({"allow": "x/*"}, "refused namespace-not-allowed"),
        ({"allow": "T/ns"}, "refused namespace-not-allowed"),
        ({"deny": "t/*"}, "refused namespace-denied"),
        ({"allow": "t/ns", "deny": "*/ns"}, "refused namespace-denied"),
        ({"actions": "unload,split"}, "refused action-not-allowed"),
        ({"actions": ""}, "refused action-not-allowed"),
        ({"windows": "12:00-13:00"}, ""),
        ({"windows": "11:00-12:00"}, "refused outside-window"),
        ({"windows": "22:00-06:00"}, "refused outside-window"),
        ({"windows": "06:00-24:00"}, ""),
        ({"windows": "22:00-12:01"}, ""),
        ({"windows": "01:00-02:00,11:59-12:01"}, ""),
    ],
)
def test_lists_and_times_of_the_operator(rules: dict[str, str], expected: str) -> None:
    assert considered(rules=rules) == expected


@pytest.mark.parametrize(
    ("owner", "exists", "expected"),
    [
        ("a:1", True, ""),
        ("b:1", True, "already-done at-destination"),
        ("c:1", True, "refused moved-on"),
        (None, True, "refused not-owned"),
        (None, False, "refused no-such-bundle"),
    ],
)
def test_what_the_owner_says(owner: str | None, exists: bool, expected: str) -> None:
    assert applied(owner, exists=exists) == expected


def test_a_destination_that_is_not_there() -> None:
    assert applied("a:1", ["a:1"]) == "refused destination-gone"
    assert applied("a:1", ["a:1"], destination=None, action="unload") == ""


@pytest.mark.parametrize(
    ("namespaces", "primary", "expected"),
    [
        ("t/ns", "a", "refused isolation-outside"),
        ("t/ns", "b", ""),
        ("other/.*", "b", "refused isolation-reserved"),
        ("other/.*", "c", ""),
        ("t/ns", "(", "refused isolation-unreadable"),
    ],
)
def test_isolation_which_pulsar_does_not_check(
    namespaces: str, primary: str, expected: str
) -> None:
    only = policy("p", [namespaces], [primary])
    assert (
        applied("a:1", policies=read_policies(json.dumps({"isolation": {"p": only}}))) == expected
    )


def test_the_pause_file_lies_in_the_state_folder() -> None:
    assert str(pause_file(ExecutorSettings(state="/s"))) == "/s/pause"
    with pytest.raises(SettingsError, match=r"executor\.state"):
        pause_file(ExecutorSettings(state="here"))


@pytest.mark.parametrize(("per_minute", "longest_s"), [(8, 352.0), (0, 322.0)])
def test_a_step_may_last_as_long_as_its_commands_wait(per_minute: int, longest_s: float) -> None:
    settings = ExecutorSettings(
        max_concurrent=4, max_per_minute=per_minute, arrival_timeout_ms=10_000, measure_ms=2_000
    )
    assert longest_step_s(settings) == longest_s
