"""Expected usages after moves: by the bundle's share of traffic, or as the strategy forecasts."""

from __future__ import annotations

from dataclasses import astuple

from strategies.cluster.model import Decision, Expected, Figures
from strategies.figures.estimate import Estimate
from tests.world.brokers import broker, bundles, ns, view


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
    estimate = two_brokers()

    expected = estimate.apply(move(0))

    assert rounded(expected) == [0.8, 0.6, 0.2, 0.4]


def test_a_forecast_counts_instead_and_adds_up() -> None:
    estimate = two_brokers()

    first, second = (estimate.apply(move(at, (0.1, 0.05))) for at in (0, 1))

    assert rounded(first) == [0.8, 0.7, 0.2, 0.25]
    assert rounded(second) == [0.7, 0.6, 0.25, 0.3]
    assert {name: round(one, 9) for name, one in estimate.changed_usages().items()} == {
        "b1:1": 0.6,
        "b2:1": 0.3,
    }


def test_no_forecast_makes_a_usage_negative() -> None:
    estimate = two_brokers()

    expected = estimate.apply(move(0, (0.9, 0.1)))

    assert expected.source_after == 0.0
