"""How the applier waits: it looks ever more rarely for a bundle's new owner, never past its
deadline, and longer between two calls.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from sinks.executor.applier import Applier, RetryPolicy
from sinks.executor.move import Allowance
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from sinks.wire.codec import encode_command, read_command
from sinks.wire.contracts.commands import CommandRecord
from tests.control_topic import command
from tests.pulsar_fake.model import Answer
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import ONE


class Waits:
    """Returns at once and says at the last wait that the program is to end."""

    def __init__(self, most: int) -> None:
        self.seconds: list[float] = []
        self._most = most

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        return len(self.seconds) == self._most


def a_transfer(pulsar: FakePulsar) -> CommandRecord:
    one, two, _ = pulsar.cluster.brokers
    return read_command(encode_command(command(ONE, one, two)))


def applied(pulsar: FakePulsar, retry: RetryPolicy, waits: Waits) -> tuple[str, str]:
    """Status, and the code of the reason."""
    with closing(
        PulsarAdmin(PulsarSettings("c", pulsar.admin_urls, attempts=1, backoff_ms=0))
    ) as admin:
        effect = Applier(admin, retry, waits).apply(a_transfer(pulsar), Allowance())
    return effect.status, (effect.reason or "").partition(":")[0]


def test_it_looks_ever_more_rarely_for_the_new_owner(pulsar: FakePulsar) -> None:
    pulsar.faults = lambda request: (
        Fault(instead=Answer(503)) if "/non-persistent/" in request.target else None
    )
    waits = Waits(4)
    assert applied(pulsar, RetryPolicy(arrival_ms=3_600_000), waits) == ("applied", "unverified")
    assert waits.seconds == [0.1, 0.2, 0.4, 0.8]


def test_it_never_waits_past_its_deadline(pulsar: FakePulsar) -> None:
    pulsar.faults = lambda request: (
        Fault(instead=Answer(503)) if "/non-persistent/" in request.target else None
    )
    waits = Waits(1)
    applied(pulsar, RetryPolicy(arrival_ms=50), waits)
    assert all(0 < seconds <= 0.05 for seconds in waits.seconds)


@pytest.mark.parametrize(("attempts", "pauses"), [(1, []), (2, [0.2]), (4, [0.2, 0.4, 0.8])])
def test_each_pause_between_two_calls_is_twice_the_one_before(
    pulsar: FakePulsar, attempts: int, pauses: list[float]
) -> None:
    pulsar.faults = lambda request: Fault(instead=Answer(503)) if request.method == "PUT" else None
    waits = Waits(99)
    assert applied(pulsar, RetryPolicy(attempts=attempts, backoff_ms=200), waits) == (
        "failed",
        "broker-unavailable",
    )
    assert waits.seconds == pauses
    assert len(pulsar.asked("PUT")) == attempts


def test_a_program_that_ends_makes_no_further_call(pulsar: FakePulsar) -> None:
    pulsar.faults = lambda request: Fault(instead=Answer(503)) if request.method == "PUT" else None
    assert applied(pulsar, RetryPolicy(attempts=9, backoff_ms=200), Waits(2)) == (
        "failed",
        "broker-unavailable",
    )
    assert len(pulsar.asked("PUT")) == 2
