"""A move is done when its bundle has arrived: a destination that other look-ups took away is
repaired once, within a budget, and no bundle is unloaded more than twice for a command, however
often the process dies.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from sinks.executor.settings import GuardRules
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, NEVER, ONE, TWO, lives_until_done, run

REPAIRS = replace(APPLY, guard=GuardRules(repairs=10))


def other_look_ups_are_first(pulsar: FakePulsar, thief: str, times: int = NEVER) -> None:
    """A client sends the bundle to the wrong broker, so many times, before anybody else asks."""
    pulsar.cluster.manager = "modular"
    stolen = count()

    def steal(_: Request) -> None:
        for bundle, owner in pulsar.cluster.owners.items():
            if owner is None and next(stolen) < times:
                pulsar.cluster.owners[bundle] = thief

    pulsar.faults = steal


def reason_of(control: Control) -> str:
    return str(control.outcomes()[-1].reason)


@pytest.mark.parametrize("thief", ["third broker", "source"])
def test_a_lost_destination_is_repaired_with_the_reason_in_the_outcome(
    pulsar: FakePulsar, control: Control, thief: str
) -> None:
    one, two, three = pulsar.cluster.brokers
    other_look_ups_are_first(pulsar, one if thief == "source" else three, times=1)
    control.send(command(ONE, one, two))

    assert run(pulsar, control, REPAIRS) == [("applied", "repaired")]

    (outcome,) = control.outcomes()
    assert (outcome.owner_after, outcome.cost.unloads) == (two, 2)
    assert (one if thief == "source" else three) in reason_of(control)
    assert pulsar.cluster.owners[ONE] == two


def test_a_destination_that_is_lost_twice_is_told_and_not_tried_a_third_time(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    other_look_ups_are_first(pulsar, three)
    control.send(command(ONE, one, two))

    assert run(pulsar, control, REPAIRS) == [("applied", "elsewhere")]
    assert len(pulsar.cluster.applied) == 2
    assert "a second unload did not bring it there either" in reason_of(control)


def test_repairs_have_a_budget_that_outlives_the_process(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.cluster.owners[TWO] = one
    once = replace(APPLY, guard=GuardRules(repairs=1))
    other_look_ups_are_first(pulsar, three, times=1)
    control.send(command(ONE, one, two))
    run(pulsar, control, once)
    other_look_ups_are_first(pulsar, three, times=1)
    control.send(command(TWO, one, two))

    assert run(pulsar, control, once) == [("applied", "repaired"), ("applied", "elsewhere")]
    assert "the 1 repairs of this hour are used up (executor.repairs)" in reason_of(control)


def test_without_repairs_the_outcome_says_which_setting_allows_them(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    other_look_ups_are_first(pulsar, three)
    control.send(command(ONE, one, two))

    assert run(pulsar, control) == [("applied", "elsewhere")]
    assert "not unloaded once more: executor.repairs is 0" in reason_of(control)


def test_a_pause_that_comes_in_between_is_obeyed(pulsar: FakePulsar, control: Control) -> None:
    one, two, three = pulsar.cluster.brokers
    file = control.folder / "pause"
    other_look_ups_are_first(pulsar, three)
    steal = pulsar.faults

    def pause_too(request: Request) -> Fault | None:
        if request.method == "PUT":
            file.touch()
        return steal(request)

    pulsar.faults = pause_too
    control.send(command(ONE, one, two))

    assert run(pulsar, control, replace(REPAIRS, pause_file=file)) == [("applied", "elsewhere")]
    assert len(pulsar.cluster.applied) == 1
    assert "not unloaded once more: paused: this executor is paused" in reason_of(control)


def test_a_repair_that_a_broker_refuses_is_no_second_unload(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    other_look_ups_are_first(pulsar, three)
    steal, puts = pulsar.faults, count()

    def refuse_the_second(request: Request) -> Fault | None:
        if request.method == "PUT" and pulsar.cluster.owners[ONE] == three and not next(puts):
            return Fault(instead=Answer(500))
        return steal(request)

    pulsar.faults = refuse_the_second
    control.send(command(ONE, one, two))

    assert run(pulsar, control, REPAIRS) == [("applied", "elsewhere")]
    assert len(pulsar.cluster.applied) == 1
    assert control.outcomes()[0].cost.unloads == 1
    assert "not unloaded once more" in reason_of(control)
    assert "answered 500" in reason_of(control)


def test_a_release_without_destination_is_never_repaired(
    pulsar: FakePulsar, control: Control
) -> None:
    one, _, _ = pulsar.cluster.brokers
    other_look_ups_are_first(pulsar, one)
    control.send(command(ONE, one))

    assert run(pulsar, control, REPAIRS) == [("failed", "came-back")]
    assert len(pulsar.cluster.applied) == 1


def test_an_unload_whose_answer_is_lost_again_and_again_is_sent_twice_at_most(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.faults = lambda request: Fault(drop=True) if request.method == "PUT" else None
    control.send(command(ONE, one, two))

    assert run(pulsar, control, REPAIRS) == [("failed", "unanswered")]
    assert len(pulsar.asked("PUT")) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("step", [1, 2, 3])
def test_no_bundle_is_unloaded_more_than_twice_however_often_the_process_dies(
    pulsar: FakePulsar, control: Control, step: int
) -> None:
    one, two, three = pulsar.cluster.brokers
    lives = 0
    for first in range(0, 40, step):
        pulsar.cluster.owners[ONE] = one
        pulsar.cluster.applied.clear()
        other_look_ups_are_first(pulsar, three)
        control.send(move := command(ONE, one, two))

        lives += lives_until_done(pulsar, control, REPAIRS, iter([first, first + step, step]))

        assert 1 <= len(pulsar.cluster.applied) <= 2, (first, pulsar.cluster.applied)
        answers = {
            (one.status, one.owner_after) for one in control.outcomes() if one.command_id == move.id
        }
        assert len(answers) == 1, answers
    assert lives > 60 // step, "it has died, and gone on"
