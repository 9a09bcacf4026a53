"""Waves say the mean factor of any stretch of time exactly: against the factor added up second by
second.
"""

from pathlib import Path

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import (
    Daily,
    OnOff,
    Steps,
    Trace,
    Wave,
)
from pulsar_rebalancer.lab.simulation.waves import (
    mean_between,
    recorded_factors,
    summed_of,
    without_transients,
)


def _mean(wave: Wave | None, begin_s: float, end_s: float, chance: float = 0.0) -> float:
    return float(mean_between(summed_of(wave, chance), np.array([begin_s]), np.array([end_s]))[0])


def _minutes(wave: Wave, count: int, shift_s: float = 0) -> list[float]:
    return [_mean(wave, 60.0 * n + shift_s, 60.0 * (n + 1) + shift_s) for n in range(count)]


def test_steady_is_one_at_any_time() -> None:
    assert _mean(None, -60, 0) == 1
    assert _mean(None, 1e6, 1e6 + 60) == 1


def test_a_step_in_the_middle_of_a_period_counts_half() -> None:
    wave = Steps(kind="steps", at=((1, 3.0),))
    assert _minutes(wave, 2) == [1, 3]
    assert _mean(wave, 30, 90) == 2


def test_consumers_on_and_off_for_a_minute_show_as_ones_and_zeros_at_the_right_moments() -> None:
    wave = OnOff(kind="on-off", on_s=60, off_s=60, phase_s=0)
    assert _minutes(wave, 4) == [1, 0, 1, 0]
    assert _minutes(wave, 4, shift_s=30) == [0.5] * 4


def test_on_and_off_begins_when_it_is_told_to() -> None:
    wave = OnOff(kind="on-off", on_s=60, off_s=60, phase_s=60, begins=10)
    assert _mean(wave, 0, 600) == 1
    assert _mean(wave, 600, 660) == 0


def test_a_day_is_highest_at_its_peak_lowest_at_night_and_even_in_all() -> None:
    wave = Daily(kind="daily", amplitude=0.4, peak_hour=14)
    hours = [_mean(wave, 3600.0 * hour - 30, 3600.0 * hour + 30, chance=0.5) for hour in range(24)]
    assert hours.index(max(hours)) == 14
    assert hours.index(min(hours)) == 2
    assert max(hours) == pytest.approx(1.4, abs=1e-3)
    assert _mean(wave, 0, 86_400, chance=0.5) == pytest.approx(1)
    assert _mean(wave, 86_400 + 7200, 86_400 + 7260, chance=0.5) == pytest.approx(
        hours[2], abs=1e-3
    )


def test_a_trace_is_repeated_and_before_the_start_it_is_as_at_the_start() -> None:
    wave = Trace(kind="trace", interval_s=60, factors=(1, 2, 3))
    assert _minutes(wave, 5) == [1, 2, 3, 1, 2]
    assert _mean(wave, 30, 90) == 1.5
    assert (_mean(wave, -120, -60), _mean(wave, -30, 30)) == pytest.approx((1, 1))
    assert _mean(wave, -60, 120) == pytest.approx(4 / 3)


def test_somebody_who_waits_sees_half_of_what_goes_on_and_off() -> None:
    calm = without_transients(OnOff(kind="on-off", on_s=60, off_s=60, begins=2))
    assert _mean(calm, 0, 120) == 1
    assert _mean(calm, 120, 180) == 0.5


def test_recorded_figures_become_factors_with_a_mean_of_1(tmp_path: Path) -> None:
    file = tmp_path / "load.csv"
    file.write_text("# minute, bytes per second\n0, 1000\n2, 3000\n\n4, 2000\n")
    assert recorded_factors(file, None) == [0.5, 1.5, 1.0]
