"""What a roll waits for outside of rounds: a person who approves its plan."""

from __future__ import annotations

import os
import time

import pytest

from pulsar_rebalancer.cli.roll.obstacles import WaitingPlans
from pulsar_rebalancer.settings.load import load
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


def test_what_was_written_before_the_life_of_a_command_is_not_read(control: Control) -> None:
    """Topics may go back for months, and a roll looks again and again."""
    flags = [f"topics.{name}={control.uri(name)}" for name in TOPICS]
    settings = load(flags=[*flags, "executor.approval=required", "round.command_ttl_ms=60000"])
    control.send(command(BUNDLE, "a:1", "b:1"))
    (segment,) = (control.folder / "commands").glob("*.jsonl")
    for minutes, is_read in ((5, True), (8, False)):
        at = time.time() - 60 * minutes
        os.utime(segment, (at, at))
        assert (WaitingPlans(settings, "c").obstacle() is not None) == is_read
