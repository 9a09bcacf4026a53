"""What a roll waits for outside of rounds: a person who approves its plan."""

from __future__ import annotations

import pytest

from rebalancer.cli.roll.obstacles import WaitingPlans
from rebalancer.settings.load import load
from tests.control_topic import TOPICS, Control, command

BUNDLE = "t/ns/0x00000000_0x80000000"


@pytest.mark.parametrize("approval", ["required", "none"])
def test_a_plan_that_waits_is_named_where_plans_wait(control: Control, approval: str) -> None:
    flags = [f"topics.{name}={control.uri(name)}" for name in TOPICS]
    settings = load(flags=[*flags, f"executor.approval={approval}"])
    assert WaitingPlans(settings, "c").obstacle() is None
    control.send(command(BUNDLE, "a:1", "b:1"))
    assert WaitingPlans(settings, "other").obstacle() is None
    found = WaitingPlans(settings, "c").obstacle()
    if approval == "none":
        assert found is None
        return
    assert found is not None
    assert found.startswith("plan 1.1-")
    assert "waits for approval: `rebalancer plans approve 1.1-" in found
