"""The usages of a plan: what brokers show, drawn to what their traffic explains."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.shedding.steady.cluster import LASTING, NOISE, drawn


@pytest.mark.parametrize("apart", [0.1, 1.0, NOISE])
def test_small_differences_are_taken_for_noise_as_far_as_the_least_part_allows(
    apart: float,
) -> None:
    explained = np.array([40.0, 50.0, 60.0, 70.0])
    shown = explained + apart * np.array([1.0, -1.0, 1.0, -1.0])

    usages = drawn(shown, explained)

    assert usages == pytest.approx(explained + LASTING * (shown - explained))


def test_large_differences_are_taken_for_lasting() -> None:
    explained = np.array([40.0, 50.0, 60.0, 70.0])
    shown = explained + np.array([20.0, -20.0, 15.0, 0.0])

    usages = drawn(shown, explained)

    assert usages == pytest.approx(shown, abs=0.3)
    assert (abs(usages - explained) <= abs(shown - explained)).all()


def test_what_traffic_explains_fully_stays() -> None:
    shown = np.array([40.0, 50.0])

    assert drawn(shown, shown) == pytest.approx(shown)
