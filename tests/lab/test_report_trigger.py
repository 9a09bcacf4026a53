"""When a modular broker writes its load report again."""

import pytest

from pulsar_rebalancer.lab.simulation.broker_reports import writes_again
from strategies.cluster.model import Figures, Resource, Traffic

AT_ONCE = 0


def told(rate: float = 0.0, *, mib: float = 0.0, bundles: int = 0, usage: float = 0.0) -> Figures:
    return Figures(
        cpu=Resource(100 * usage, 100.0),
        traffic=Traffic(msg_rate_in=rate, msg_throughput_out=mib * 1048576),
        bundle_count=bundles,
    )


def writes(written: Figures, now: Figures, age_ms: int = AT_ONCE) -> bool:
    return writes_again(written, now, age_ms)


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [(1000, 1101, True), (1000, 1100, False), (0, 1, True), (0, 0, False), (1000, 899, True)],
)
def test_more_than_ten_percent_of_the_older_rate(before: float, now: float, written: bool) -> None:
    assert writes(told(before), told(now)) == written


def test_usage_counts_in_points() -> None:
    assert not writes(told(usage=0.5), told(usage=0.599))
    assert writes(told(usage=0.5), told(usage=0.601))


def test_throughput_and_the_number_of_bundles_count_too() -> None:
    assert writes(told(mib=10), told(mib=12))
    assert writes(told(bundles=9), told(bundles=10))
    assert not writes(told(bundles=10), told(bundles=11))


def test_nothing_changed_for_more_than_a_quarter_of_an_hour() -> None:
    assert not writes(told(), told(), age_ms=900_000)
    assert writes(told(), told(), age_ms=900_001)
