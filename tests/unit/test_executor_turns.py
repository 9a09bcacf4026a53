"""Commands whose cluster changes while they wait for their turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sinks.executor.guard import RateLimiter
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Answer
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import ONE, Life, run


class Turn(RateLimiter):
    """Something happens before the command's turn comes."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__(1, lambda _: False)
        self._happens = happens

    def acquire(self) -> bool:
        self._happens()
        return True


@pytest.mark.parametrize(
    ("went", "told"),
    [
        (1, ("already-done", "at-destination")),
        (2, ("refused", "moved-on")),
        (None, ("refused", "not-owned")),
    ],
)
def test_a_bundle_that_has_moved_meanwhile_is_left_alone(
    pulsar: FakePulsar, control: Control, went: int | None, told: tuple[str, str]
) -> None:
    one, two, _ = pulsar.cluster.brokers
    pulsar.cluster.lookups = False
    owner = None if went is None else pulsar.cluster.brokers[went]
    control.send(command(ONE, one, two))

    life = Life(limiter=Turn(lambda: pulsar.cluster.owners.update({ONE: owner})))
    assert run(pulsar, control, life=life) == [told]
    assert control.outcomes()[0].owner_after == owner
    assert pulsar.asked("PUT") == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault(instead=Answer(503)), "cluster-error"), (Fault(drop=True), "cluster-silent")],
)
def test_a_cluster_that_falls_silent_meanwhile_gets_no_call(
    pulsar: FakePulsar, control: Control, fault: Fault, code: str
) -> None:
    one, two, _ = pulsar.cluster.brokers
    control.send(command(ONE, one, two))

    life = Life(limiter=Turn(lambda: setattr(pulsar, "faults", lambda _: fault)))
    assert run(pulsar, control, life=life) == [("failed", code)]
    assert pulsar.asked("PUT") == []
