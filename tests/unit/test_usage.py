"""Usage figures have the bits of Java's; those after moves follow from shares or forecasts."""

from dataclasses import astuple
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.cluster.model import Decision, Expected, Figures, Resource
from strategies.figures.usage import percent, weighted_usage, weighted_usages
from strategies.figures.usage_after_moves import Estimate
from strategies.settings import Weights
from tests.world.brokers import broker, bundles, ns, view

numbers = st.floats() | st.sampled_from([0.0, -0.0, -1.0, 100.0, 5e-324, 1e300, 3.4e38])
resources = st.builds(Resource, numbers, numbers)
figures = st.builds(Figures, resources, resources, resources, resources, resources)
weights = st.builds(Weights, *[st.sampled_from([0.0, 0.5, 1.0, 2.0])] * 4)


def test_heap_memory_never_counts() -> None:
    figures = Figures(cpu=Resource(10.0, 100.0), memory=Resource(99.0, 100.0))
    assert weighted_usage(figures, Weights()) == 0.1


def test_nan_loses_against_everything_and_four_of_them_give_minus_infinity() -> None:
    broken = Resource(nan, 100.0)
    assert weighted_usage(Figures(cpu=broken, bandwidth_in=Resource(10.0, 100.0)), Weights()) == 0.1
    assert weighted_usage(Figures(broken, broken, broken, broken, broken), Weights()) == -inf


@pytest.mark.heavy
@given(st.lists(figures, max_size=5), weights)
def test_many_brokers_at_once_get_the_same_bits_as_one_by_one(
    brokers: list[Figures], weights: Weights
) -> None:
    one_by_one = np.array([weighted_usage(broker, weights) for broker in brokers])
    assert weighted_usages(brokers, weights).tobytes() == one_by_one.tobytes()


@pytest.mark.heavy
@given(resources)
def test_a_percentage_is_what_float32_arithmetic_gives(resource: Resource) -> None:
    with np.errstate(all="ignore"):
        wanted = (
            np.float32(resource.usage) / np.float32(resource.limit) * np.float32(100)
            if resource.limit > 0
            else np.float32(0)
        )
    got = percent(resource)
    assert (isnan(got) and np.isnan(wanted)) or got == float(wanted)


def usage(figures: Figures) -> float:
    return figures.cpu.usage / figures.cpu.limit


def rounded(expected: Expected) -> list[float]:
    return [round(value, 9) for value in astuple(expected)]


def two_brokers() -> Estimate:
    """b1 at 80 % with four equal bundles, b2 at 20 % with one."""
    full = broker("b1", 80.0, 40.0, bundles(*[10.0] * 4))
    return Estimate(view(full, broker("b2", 20.0, 10.0, bundles(10.0, first=9))), usage)


def move(at: int, forecast: tuple[float, float] | None = None) -> Decision:
    return Decision(ns(at), "b1:1", "b2:1", "code", "text", forecast=forecast)


def test_without_a_forecast_a_bundle_takes_its_share_of_traffic_along() -> None:
    assert rounded(two_brokers().apply(move(0))) == [0.8, 0.6, 0.2, 0.4]


def test_a_forecast_counts_instead_and_adds_up() -> None:
    estimate = two_brokers()

    first, second = (estimate.apply(move(at, (0.1, 0.05))) for at in (0, 1))

    assert rounded(first) == [0.8, 0.7, 0.2, 0.25]
    assert rounded(second) == [0.7, 0.6, 0.25, 0.3]
    assert estimate.changed_usages() == pytest.approx({"b1:1": 0.6, "b2:1": 0.3})


def test_no_forecast_makes_a_usage_negative() -> None:
    assert two_brokers().apply(move(0, (0.9, 0.1))).source_after == 0.0
