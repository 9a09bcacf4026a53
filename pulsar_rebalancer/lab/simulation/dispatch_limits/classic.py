"""The classic limiter: a counter of used units, from which a timer subtracts one period's permits
at each tick.

Source of the rule: `RateLimiter` as `DispatchRateLimiterClassic` of Pulsar 4.2.4 uses it. Java's
timer is an argument here: the caller passes the time, and all ticks that are due by then are
applied.
"""

from dataclasses import dataclass, replace

from strategies.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Counter:
    """State of a classic limiter: units allowed per period, units used and not yet subtracted, time
    of the next tick.

    The timer starts with the first charge or the first change of the rate; `next_tick_ns` is None
    until then.
    """

    permits: int
    period_ns: int
    acquired: int
    next_tick_ns: int | None = None

    @property
    def available(self) -> int:
        """Units left in this period, never negative."""
        return max(0, self.permits - self.acquired)


def unused(permits: int, period_ns: int) -> Counter:
    """A new limiter. Raises SettingsError for a period of 0: Java refuses the rate of a policy
    without a period.
    """
    if period_ns < 1:
        raise SettingsError(
            [
                "ratePeriodInSecond: the classic limiter needs at least 1 second, got 0; add "
                "the field to the policy"
            ]
        )
    return Counter(permits, period_ns, 0)


def changed(counter: Counter, permits: int, period_ns: int, now_ns: int) -> Counter:
    """The limiter with another rate: the timer restarts, used units stay used."""
    return replace(
        unused(permits, period_ns), acquired=counter.acquired, next_tick_ns=now_ns + period_ns
    )


def charge(counter: Counter, units: int, now_ns: int) -> Counter:
    """Adds `units` to the used ones, without a limit."""
    if units == 0:
        return counter
    next_tick_ns = (
        now_ns + counter.period_ns if counter.next_tick_ns is None else counter.next_tick_ns
    )
    return replace(counter, acquired=counter.acquired + units, next_tick_ns=next_tick_ns)


def tick(counter: Counter, now_ns: int, permits: int | None = None) -> Counter:
    """The limiter after all ticks up to `now_ns`. `permits`: what a relative rate allows now; a
    tick subtracts the old number first.
    """
    if counter.next_tick_ns is None or now_ns < counter.next_tick_ns:
        return counter
    ticks = (now_ns - counter.next_tick_ns) // counter.period_ns + 1
    allowed = permits if permits is not None and permits > 0 else counter.permits
    left = max(0, max(0, counter.acquired - counter.permits) - allowed * (ticks - 1))
    return replace(
        counter,
        permits=allowed,
        acquired=left,
        next_tick_ns=counter.next_tick_ns + ticks * counter.period_ns,
    )
