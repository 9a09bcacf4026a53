"""How fast commands may be begun: never more than so many within any minute."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sinks.executor.guard import RateLimiter


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self, patience_s: float = float("inf")) -> None:
        self.now = 0.0
        self.patience_s = patience_s

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now > self.patience_s

    def read(self) -> float:
        return self.now


@given(st.integers(1, 5), st.lists(st.floats(0, 40), min_size=1, max_size=40))
def test_in_no_minute_more_are_begun_than_allowed(most: int, pauses: list[float]) -> None:
    clock, begun = Clock(), []
    limiter = RateLimiter(most, clock.wait, clock.read)
    for pause in pauses:
        clock.wait(pause)
        assert limiter.acquire()
        begun.append(clock.now)

    assert all(
        later - earlier >= 60 - 1e-6 for earlier, later in zip(begun, begun[most:], strict=False)
    )


def test_whoever_is_within_the_limit_does_not_wait() -> None:
    clock = Clock()
    limiter = RateLimiter(3, clock.wait, clock.read)
    assert [limiter.acquire() for _ in range(3)] == [True] * 3
    assert clock.now == 0
    assert RateLimiter(0, clock.wait, clock.read).acquire()


def test_a_wish_to_stop_ends_the_wait() -> None:
    clock = Clock(patience_s=30)
    limiter = RateLimiter(1, clock.wait, clock.read)
    assert [limiter.acquire(), limiter.acquire()] == [True, False]
