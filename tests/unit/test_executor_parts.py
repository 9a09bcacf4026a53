"""The way of one command through the executor: intake, judge and publish are entered once each, in
this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import pytest

from sinks.executor import intake, judge, publish
from sinks.executor.rate_limiter import RateLimiter
from sinks.executor.settings import ExecutorConfig
from sinks.wire.codec import encode_command
from tests.calls import watched_calls
from tests.control_topic import Control, command, now_ms
from tests.pulsar_fake.model import Answer
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, ONE, Life, executor, run

PARTS = {str(part.__file__): part.__name__.rpartition(".")[2] for part in (intake, judge, publish)}
#: Of rounds and of verdicts that are no longer needed, not of a command.
HOUSEKEEPING = {"intake.learn_epochs", "intake.forget"}
EACH_ONCE = ["intake.next_wave", "judge.judge", "publish.publish"]


@contextmanager
def entries() -> Iterator[list[str]]:
    """Calls from other modules into the three parts, in all threads that start meanwhile."""
    found: list[str] = []

    def see(frame: FrameType) -> None:
        file, caller = frame.f_code.co_filename, frame.f_back
        if file in PARTS and (caller is None or caller.f_code.co_filename != file):
            found.append(f"{PARTS[file]}.{frame.f_code.co_name}")

    with watched_calls(see):
        yield found


def parts_entered(
    pulsar: FakePulsar, control: Control, config: ExecutorConfig, life: Life = Life()
) -> list[str]:
    with executor(pulsar, control, config, life) as running:
        running.recover()
        with entries() as found:
            assert running.step(0) == 1
    return [entry for entry in found if entry not in HOUSEKEEPING]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda config: config, ("applied", "")),
        (lambda config: replace(config, apply=False), ("dry-run", "dry-run")),
        (
            lambda config: replace(config, rules=replace(config.rules, deny=("t/*",))),
            ("refused", "namespace-denied"),
        ),
    ],
)
def test_a_command_enters_each_part_once(
    pulsar: FakePulsar,
    control: Control,
    change: Callable[[ExecutorConfig], ExecutorConfig],
    verdict: tuple[str, str],
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two))

    assert parts_entered(pulsar, control, change(APPLY)) == EACH_ONCE
    assert control.verdicts() == [verdict]


def test_a_command_that_is_refused_right_before_the_call_is_not_judged_twice(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two))
    pause_file = control.folder / "pause"
    pulsar.faults = lambda _: pause_file.touch()

    assert parts_entered(pulsar, control, replace(APPLY, pause_file=pause_file)) == EACH_ONCE
    assert control.verdicts() == [("refused", "paused")]


@pytest.mark.parametrize(
    ("went", "told"),
    [
        ("to its destination", ("already-done", "at-destination")),
        ("to a third broker", ("refused", "moved-on")),
        ("to nobody", ("refused", "not-owned")),
    ],
)
def test_nor_is_one_whose_bundle_moves_while_it_waits(
    pulsar: FakePulsar, control: Control, went: str, told: tuple[str, str]
) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.cluster.lookups = False
    places = {"to its destination": two, "to a third broker": three, "to nobody": None}

    class Turn(RateLimiter):
        def acquire(self) -> bool:
            pulsar.cluster.owners[ONE] = places[went]
            return True

    control.send(command(ONE, one, two))

    life = Life(limiter=Turn(1, lambda _: False))
    assert parts_entered(pulsar, control, APPLY, life) == EACH_ONCE
    assert control.verdicts() == [told]
    assert control.outcomes()[0].owner_after == places[went]
    assert pulsar.asked("PUT") == []


def test_a_cluster_that_falls_silent_while_a_command_waits_gets_no_call(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers

    class Turn(RateLimiter):
        def acquire(self) -> bool:
            pulsar.faults = lambda _: Fault(instead=Answer(503))
            return True

    control.send(command(ONE, one, two))

    assert run(pulsar, control, life=Life(limiter=Turn(1, lambda _: False))) == [
        ("failed", "cluster-error")
    ]
    assert pulsar.asked("PUT") == []


def test_an_expired_command_is_judged_once_and_never_shown_to_the_cluster(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two, expires_at_ms=now_ms() - 1))

    assert parts_entered(pulsar, control, APPLY) == EACH_ONCE
    assert pulsar.asked("GET") == []


def test_what_is_no_command_is_not_judged(pulsar: FakePulsar, control: Control) -> None:
    one, _, _ = pulsar.cluster.brokers
    control.write("commands", [encode_command(command("t/ns/0x0_0x1", one))])

    assert parts_entered(pulsar, control, APPLY) == ["intake.next_wave", "publish.publish"]
