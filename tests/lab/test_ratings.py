"""What strategies are rated by: how far moves go past the mean, and whether the order is the
published one.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.metrics.moves import over_placement, over_unloading
from pulsar_rebalancer.lab.simulation.scenarios.schema import Property
from pulsar_rebalancer.lab.simulation.timeline import Move, MoveKind, Timeline
from pulsar_rebalancer.lab.tables.simulate.ratings import PUBLISHED, Rated, verdict


def a_run(*rounds: Sequence[float], moves: Sequence[Move] = ()) -> Timeline:
    """Percent of usage of brokers a, b, c … in each round."""
    usage = np.array(rounds) / 100
    nothing = np.full_like(usage, np.nan)
    return Timeline(
        title="a run",
        kind="simulated",
        cluster="c",
        strategy="avg/parity",
        times_ms=60_000 * np.arange(len(rounds)),
        brokers=tuple("abcdef"[: usage.shape[1]]),
        usage=usage,
        msg_rate=nothing,
        msg_throughput=nothing,
        lasting=usage,
        reached=np.zeros(len(rounds), dtype=np.bool_),
        moves=tuple(moves),
    )


def a_move(round_: int, source: str, destination: str, kind: MoveKind = "unload") -> Move:
    return Move(round_, 60_000 * round_, f"bundle-{round_}", source, destination, kind)


def overshoot(run: Timeline) -> tuple[float, float]:
    return over_unloading(run, run.moves), over_placement(run, run.moves)


def test_who_stops_at_the_mean_goes_too_far_with_nothing() -> None:
    assert overshoot(a_run([80, 50, 20], [50, 50, 50], moves=[a_move(0, "a", "c")])) == (0, 0)


def test_giver_and_taker_that_change_places_are_as_far_off_as_they_passed_the_mean() -> None:
    run = a_run([80, 50, 20], [35, 50, 65], moves=[a_move(0, "a", "c"), a_move(0, "a", "c")])
    assert overshoot(run) == pytest.approx((15, 15))


def test_who_was_past_the_mean_before_counts_with_how_much_further_it_went() -> None:
    run = a_run([40, 60, 20], [36, 64, 20], moves=[a_move(0, "a", "b")])
    assert overshoot(run) == pytest.approx((4, 4))


def test_a_bundle_that_somebody_left_behind_is_seen_at_once_and_nobody_unloaded_it() -> None:
    run = a_run([50, 50, 50], [80, 50, float("nan")], moves=[a_move(1, "c", "a", "placed")])
    assert overshoot(run) == pytest.approx((0, 15))


def rated(**by_strategy: float) -> Rated:
    names = {name.partition("/")[0]: name for name in PUBLISHED}
    values: dict[str, dict[Property, float]] = {
        names[who]: {"stability": value} for who, value in by_strategy.items()
    }
    return Rated(values, {"stability": ("e2",)})


def test_the_published_order_compares_the_good_with_the_poor_and_nothing_among_equals() -> None:
    assert rated(threshold=1, avg=0, uniform=20).order("stability") is True
    assert rated(threshold=1, avg=30, uniform=20).order("stability") is False
    assert rated(threshold=1, avg=30).order("stability") is None
    assert verdict(rated(threshold=1, avg=30, uniform=20)).endswith(
        "in 0 of 1 properties; not in stability."
    )
