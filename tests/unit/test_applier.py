"""How the applier waits between looks and calls, and how fast commands may be begun."""

from contextlib import closing
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.move_gate_and_holds import RateLimiter
from sinks.executor.outcome_status_and_reason import Allowance, MoveOnItsWay
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.wire.record_decoding import read_command
from sinks.wire.record_encoding import encode_command
from strategies.cluster.model import Command
from tests.control_topic import command
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import FakePulsar, Fault, answered, is_put
from tests.unit.executor_lives import ONE, StoryTime


class Waits:
    """Time passes only in them. The `most`-th pause between calls says that the program ends."""

    def __init__(self, most: int = 99) -> None:
        self.pauses: list[float] = []
        self.looks: list[float] = []
        self._most = most

    def pause(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return len(self.pauses) >= self._most

    def look(self, seconds: float) -> None:
        self.looks.append(seconds)

    def now_s(self) -> float:
        return sum(self.pauses) + sum(self.looks)


def a_transfer(pulsar: FakePulsar) -> Command:
    one, two, _ = pulsar.cluster.brokers
    return read_command(encode_command(command(ONE, one, two)))


def applied(pulsar: FakePulsar, retry: RetryPolicy, waits: Waits) -> tuple[str, str]:
    """Status, and the code of the reason."""
    with closing(
        PulsarAdmin(PulsarSettings("c", pulsar.admin_urls, attempts=1, backoff_ms=0))
    ) as admin:
        applier = Applier(admin, retry, waits.pause, waits.now_s, sleep=waits.look)
        effect = applier.apply(a_transfer(pulsar), Allowance())
    return effect.status, (effect.reason or "").partition(":")[0]


@pytest.mark.parametrize(
    ("arrival_ms", "looks"), [(60_000, [0.1, 0.2, 0.4, 0.8]), (150, [0.1, pytest.approx(0.05)])]
)
def test_it_looks_ever_more_rarely_for_the_new_owner_and_never_past_its_deadline(
    pulsar: FakePulsar, arrival_ms: int, looks: list[float]
) -> None:
    pulsar.fail("/non-persistent/", answered(503))
    waits = Waits()
    assert applied(pulsar, RetryPolicy(arrival_ms=arrival_ms), waits) == ("applied", "unverified")
    assert waits.looks[:4] == looks


def test_a_program_that_ends_looks_for_the_released_bundle_all_the_same(pulsar: FakePulsar) -> None:
    two = pulsar.cluster.brokers[1]
    pulsar.cluster.lookups = False
    looks = count()

    def found_later(request: Request) -> Fault | None:
        if request.target.startswith("/lookup/"):
            return answered(503)
        if "/non-persistent/" in request.target and next(looks) == 8:
            pulsar.cluster.owners[ONE] = two
        return None

    pulsar.faults = found_later

    assert applied(pulsar, RetryPolicy(), Waits(0)) == ("applied", "")


@pytest.mark.parametrize(
    ("attempts", "most", "pauses"),
    [
        (1, 99, []),
        (2, 99, [0.2]),
        (4, 99, [0.2, 0.4, 0.8]),
        pytest.param(9, 2, [0.2, 0.4], id="a program that ends makes no further call"),
    ],
)
def test_each_pause_between_two_calls_is_twice_the_one_before(
    pulsar: FakePulsar, attempts: int, most: int, pauses: list[float]
) -> None:
    pulsar.fail(is_put, answered(503))
    waits, retry = Waits(most), RetryPolicy(attempts=attempts, backoff_ms=200)
    assert applied(pulsar, retry, waits) == ("failed", "broker-unavailable")
    assert waits.pauses == pauses
    assert len(pulsar.asked("PUT")) == min(attempts, most)


@pytest.mark.parametrize(
    ("released_s", "owned_s", "unowned_ms"),
    [(1.0, 3.0, 2_000), (1.0, 0.9, 0), (None, 3.0, None), (1.0, None, None)],
)
def test_a_bundle_is_without_a_broker_from_its_release_to_the_first_sight_of_an_owner(
    pulsar: FakePulsar, released_s: float | None, owned_s: float | None, unowned_ms: int | None
) -> None:
    move = MoveOnItsWay(a_transfer(pulsar), Allowance(), 1, released_s, owned_s)
    assert move.unowned_ms == unowned_ms


@given(st.integers(1, 5), st.lists(st.floats(0, 40), min_size=1, max_size=40))
def test_in_no_minute_more_are_begun_than_allowed(most: int, pauses: list[float]) -> None:
    time, begun = StoryTime(), []
    limiter = RateLimiter(most, time.wait, time)
    for pause in pauses:
        time.wait(pause)
        assert limiter.acquire()
        begun.append(time())
    assert all(
        later - earlier >= 60 - 1e-6 for earlier, later in zip(begun, begun[most:], strict=False)
    )


def test_whoever_is_within_the_limit_does_not_wait() -> None:
    time = StoryTime()
    limiter = RateLimiter(3, time.wait, time)
    assert [limiter.acquire() for _ in range(3)] == [True] * 3
    assert time() == 0
    assert RateLimiter(0, time.wait, time).acquire()


def test_a_wish_to_stop_ends_the_wait() -> None:
    time = StoryTime()
    limiter = RateLimiter(1, lambda seconds: time.wait(seconds) or time() > 30, time)
    assert [limiter.acquire(), limiter.acquire()] == [True, False]
