"""A move is done when its bundle has arrived: a destination that other look-ups took away is
repaired once, within a budget, and no bundle is unloaded more than twice for a command, however
often the process dies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import count

import pytest

from sinks.executor.applier import Applier, RetryPolicy
from sinks.executor.executor import Executor, ExecutorTopics
from sinks.executor.rate_limiter import RateLimiter
from sinks.executor.settings import ExecutorConfig, GuardRules
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.access import open_consumer, open_publisher
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.topic_uris import topic_of
from tests.unit.executor_lives import APPLY, ONE, TWO, Death, StoryTime, run
from tests.unit.test_executor_crashes import Fuse, FusedJournal, FusedTopic

REPAIRS = replace(APPLY, guard=GuardRules(repairs=10))
_NEVER = 10**6


def other_look_ups_are_first(pulsar: FakePulsar, thief: str, times: int = _NEVER) -> None:
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


class FusedAdmin(PulsarAdmin):
    """Dies before and after an unload."""

    def __init__(self, pulsar: FakePulsar, fuse: Fuse) -> None:
        super().__init__(PulsarSettings("c", pulsar.admin_urls, backoff_ms=0))
        self._fuse = fuse

    def unload(self, bundle: str, destination: str | None) -> None:
        self._fuse()
        super().unload(bundle, destination)
        self._fuse()


@dataclass(frozen=True)
class Lives:
    """An executor that dies at any moment, over one move whose destination is always lost."""

    pulsar: FakePulsar
    control: Control
    config: ExecutorConfig = REPAIRS

    def live(self, fuse: Fuse) -> None:
        """One life, until nothing is left to do or it dies."""
        state = self.control.folder / "state"
        with ExitStack() as stack:
            admin = stack.enter_context(closing(FusedAdmin(self.pulsar, fuse)))
            journal = stack.enter_context(closing(FusedJournal(state, fuse)))
            topics = ExecutorTopics(
                *(
                    FusedTopic(open_consumer(topic_of(self.control.uri(name)), "e", state), fuse)
                    for name in ("commands", "rounds")
                ),
                *(
                    FusedTopic(open_publisher(topic_of(self.control.uri(name))), fuse)
                    for name in ("outcomes", "telemetry", "rejected")
                ),
            )
            stack.callback(topics.close)
            time = StoryTime()
            executor = Executor(
                self.config,
                topics,
                journal=journal,
                admin=admin,
                applier=Applier(
                    admin, RetryPolicy(300, backoff_ms=0), time.wait, clock=time, sleep=time.wait
                ),
                limiter=RateLimiter(0, wait=lambda _: True),
            )
            executor.recover()
            while executor.step(0):
                pass

    def all(self, dies: Iterator[int]) -> int:
        """Lives until one ends by itself; how many."""
        for number in count(1):
            try:
                self.live(Fuse(next(dies, _NEVER)))
            except Death:
                continue
            return number
        raise AssertionError("count() has no end")


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

        lives += Lives(pulsar, control).all(iter([first, first + step, step]))

        assert 1 <= len(pulsar.cluster.applied) <= 2, (first, pulsar.cluster.applied)
        answers = {
            (one.status, one.owner_after) for one in control.outcomes() if one.command_id == move.id
        }
        assert len(answers) == 1, answers
    assert lives > 60 // step, "it has died, and gone on"
