"""The classic limiter: the documented examples period by period, its lazy timer, relative rates,
and changes of the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pulsar_rebalancer.lab.simulation.dispatch_limits.classic import (
    Counter,
    changed,
    charge,
    tick,
    unused,
)
from pulsar_rebalancer.lab.simulation.dispatch_limits.token_bucket import SECOND_NS
from strategies.errors import SettingsError


@dataclass
class Story:
    counter: Counter
    now_ns: int = 0

    def takes(self, units: int) -> Story:
        self.counter = charge(self.counter, units, self.now_ns)
        return self

    def after(self, seconds: float, relative: int | None = None) -> int:
        self.now_ns += int(seconds * SECOND_NS)
        self.counter = tick(self.counter, self.now_ns, relative)
        return self.counter.available


def ten() -> Story:
    return Story(unused(10, SECOND_NS))


def test_after_eleven_delivered_the_next_period_allows_nine() -> None:
    assert ten().takes(11).after(1) == 9


def test_after_thirty_delivered_two_periods_allow_nothing() -> None:
    story = ten().takes(30)
    assert [story.after(1) for _ in range(3)] == [0, 0, 10]


def test_ticks_that_were_missed_are_made_up_for() -> None:
    assert ten().takes(45).after(4) == 5


def test_the_timer_starts_with_the_first_charge() -> None:
    story = ten()
    story.after(0.75)
    story.takes(10)
    assert [story.after(0.5), story.after(0.5)] == [0, 10]


def test_a_charge_of_nothing_does_not_start_the_timer() -> None:
    assert charge(unused(10, SECOND_NS), 0, 0).next_tick_ns is None


def test_a_relative_rate_is_learnt_after_the_old_one_was_taken_off() -> None:
    story = ten().takes(25)
    assert story.after(1, relative=40) == 25, "15 are left of the 25, 40 are allowed"
    assert story.counter.permits == 40
    assert story.after(1, relative=0) == 40, "a relative rate of nothing is ignored"


def test_a_change_keeps_what_was_used_and_starts_the_timer_anew() -> None:
    story = ten().takes(25)
    story.after(0.5)
    story.counter = changed(story.counter, 20, 2 * SECOND_NS, story.now_ns)
    assert [story.after(1), story.after(1)] == [0, 15]


def test_a_period_of_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="ratePeriodInSecond"):
        unused(10, 0)
