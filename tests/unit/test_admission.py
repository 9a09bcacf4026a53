"""Whether a command may be carried out: every objection has its own code, and they come in a fixed
order.
"""

import json
from dataclasses import replace

import pytest

from sinks.executor.settings import ExecutorSettings, admission_rules, pause_file
from strategies.errors import SettingsError
from strategies.executor import admission
from strategies.filters.policies import read_policies
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
ALL = admission.AdmissionRules()


def rules(**given: str) -> admission.AdmissionRules:
    return admission_rules(ExecutorSettings(**given))  # type: ignore[arg-type]


def told(objection: admission.Objection | None) -> tuple[str, str] | None:
    return None if objection is None else (objection.status, objection.code)


def test_a_command_against_which_nothing_speaks() -> None:
    assert admission.may_be_considered(MOVE, NOW, ALL) is None
    assert (
        admission.may_be_considered(
            MOVE, replace(NOW, signature="signed", earlier="dry-run", newest_epoch=0), ALL
        )
        is None
    )
    assert admission.may_be_applied(MOVE, admission.ClusterFacts(("a:1", "b:1"), "a:1")) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"signature": "unsigned"}, ("refused", "unsigned")),
        ({"signature": "wrong"}, ("refused", "wrong-signature")),
        ({"newest_epoch": 4}, ("refused", "older-epoch")),
        ({"now_ms": NOON + 999}, None),
        ({"now_ms": NOON + 1000}, ("expired", "expired")),
        ({"now_ms": NOON - 301_000}, None),
        ({"now_ms": NOON - 301_001}, ("refused", "from-the-future")),
        ({"earlier": "applied"}, ("already-done", "replayed")),
        ({"earlier": "already-done"}, ("already-done", "replayed")),
        ({"earlier": "refused"}, ("refused", "replayed")),
        ({"earlier": "failed"}, ("refused", "replayed")),
        ({"earlier": "expired"}, ("expired", "replayed")),
        ({"earlier": "expired", "now_ms": NOON + 90_000}, ("expired", "replayed")),
        ({"earlier": "applied", "now_ms": NOON + 90_000}, ("already-done", "replayed")),
        ({"earlier": "applied", "newest_epoch": 4}, ("already-done", "replayed")),
        ({"paused": True}, ("refused", "paused")),
    ],
)
def test_what_is_known_of_the_command(
    change: dict[str, object], expected: tuple[str, str] | None
) -> None:
    assert told(admission.may_be_considered(MOVE, replace(NOW, **change), ALL)) == expected  # type: ignore[arg-type]


def test_forgery_is_told_before_everything_else_and_the_pause_last() -> None:
    worst = admission.CommandFacts(NOON + 5000, "wrong", 9, "applied", True)
    nothing_allowed = rules(deny="*", windows="01:00-02:00")
    codes = []
    for standing in (
        worst,
        replace(worst, signature="signed"),
        replace(worst, signature="signed", earlier=None),
        replace(NOW, paused=True),
    ):
        objection = admission.may_be_considered(MOVE, standing, nothing_allowed)
        assert objection is not None
        codes.append(objection.code)
    assert codes == ["wrong-signature", "replayed", "older-epoch", "namespace-denied"]


@pytest.mark.parametrize(
    ("change", "code"),
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
def test_what_is_never_carried_out(change: dict[str, object], code: str) -> None:
    assert told(admission.may_be_considered(replace(MOVE, **change), NOW, ALL)) == ("refused", code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lists", "code"),
    [
        ({"allow": "t/ns"}, None),
        ({"allow": "x/*, t/*"}, None),
        ({"allow": "*"}, None),
        ({"allow": "x/*"}, "namespace-not-allowed"),
        ({"allow": "T/ns"}, "namespace-not-allowed"),
        ({"deny": "t/*"}, "namespace-denied"),
        ({"allow": "t/ns", "deny": "*/ns"}, "namespace-denied"),
        ({"actions": "unload,split"}, "action-not-allowed"),
        ({"actions": ""}, "action-not-allowed"),
    ],
)
def test_lists_of_the_operator(lists: dict[str, str], code: str | None) -> None:
    assert told(admission.may_be_considered(MOVE, NOW, rules(**lists))) == (
        None if code is None else ("refused", code)
    )


@pytest.mark.parametrize(
    ("windows", "open_"),
    [
        ("12:00-13:00", True),
        ("11:00-12:00", False),
        ("22:00-06:00", False),
        ("06:00-24:00", True),
        ("22:00-12:01", True),
        ("01:00-02:00,11:59-12:01", True),
    ],
)
def test_times_of_day(windows: str, open_: bool) -> None:
    assert told(admission.may_be_considered(MOVE, NOW, rules(windows=windows))) == (
        None if open_ else ("refused", "outside-window")
    )


@pytest.mark.parametrize(
    ("owner", "exists", "expected"),
    [
        ("b:1", True, ("already-done", "at-destination")),
        ("c:1", True, ("refused", "moved-on")),
        (None, True, ("refused", "not-owned")),
        (None, False, ("refused", "no-such-bundle")),
    ],
)
def test_what_the_owner_says(owner: str | None, exists: bool, expected: tuple[str, str]) -> None:
    assert (
        told(
            admission.may_be_applied(
                MOVE, admission.ClusterFacts(("a:1", "b:1", "c:1"), owner, exists=exists)
            )
        )
        == expected
    )


def test_a_destination_that_is_not_there() -> None:
    assert told(admission.may_be_applied(MOVE, admission.ClusterFacts(("a:1",), "a:1"))) == (
        "refused",
        "destination-gone",
    )
    assert (
        admission.may_be_applied(
            replace(MOVE, destination=None, action="unload"),
            admission.ClusterFacts(("a:1",), "a:1"),
        )
        is None
    )


@pytest.mark.parametrize(
    ("namespaces", "primary", "code"),
    [
        ("t/ns", "a", "isolation-outside"),
        ("t/ns", "b", None),
        ("other/.*", "b", "isolation-reserved"),
        ("other/.*", "c", None),
        ("t/ns", "(", "isolation-unreadable"),
    ],
)
def test_isolation_which_pulsar_does_not_check(
    namespaces: str, primary: str, code: str | None
) -> None:
    only = policy("p", [namespaces], [primary])
    policies = read_policies(json.dumps({"isolation": {"p": only}}))

    assert told(
        admission.may_be_applied(
            MOVE, admission.ClusterFacts(("a:1", "b:1", "c:1"), "a:1", policies)
        )
    ) == (None if code is None else ("refused", code))


def test_the_pause_file_lies_in_the_state_folder() -> None:
    assert str(pause_file(ExecutorSettings(state="/s"))) == "/s/pause"
    with pytest.raises(SettingsError, match=r"executor\.state"):
        pause_file(ExecutorSettings(state="here"))
