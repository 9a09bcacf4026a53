"""AvgShedder as Pulsar 4.2.4 runs it: its decisions and their figures (half of a difference
moves).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from strategies.cluster.model import BrokerLoad
from strategies.shedding.avg.parity import ParityAvgShedder, plan_key
from strategies.shedding.avg.settings import AvgSettings
from tests.unit.avg_clusters import five_uneven_brokers, ten_ninety
from tests.world.brokers import (
    WEIGHTS,
    Load,
    broker,
    bundles,
    codes,
    hits,
    ns,
    picked,
    play,
    skip_of,
    talking,
    view,
)

SHEDDER = ParityAvgShedder(AvgSettings(max_unload=0.5), WEIGHTS)


def test_pairs_from_both_ends_and_acts_on_the_second_urgent_hit() -> None:
    seen = five_uneven_brokers()
    rounds = play(SHEDDER, seen, seen, seen)
    assert [picked(round_) for round_ in rounds] == [{}, {"b5:1": [ns(1), ns(2)]}, {}]
    assert {decision.destination for decision in rounds[1].decisions} == {"b1:1"}
    assert rounds[1].decisions[0].evidence["to_move"] == 4750
    assert codes(rounds[1])[ns(0)] == "does-not-fit"
    # 70 − 30.000002 is not quite 40, so the second pair is not urgent: the vectors say so too.
    assert hits(rounds[0])["b4:1"] == (0, 1)
    assert codes(rounds[1])["b4:1"] == "waiting-for-hits"
    assert codes(rounds[0])["b3:1"] == "close-together"
    assert hits(rounds[1]) == {"b2:1": (0, 2), "b4:1": (0, 2)}


@pytest.mark.parametrize("high", [36.0, 35.0])
def test_a_smaller_difference_takes_eight_hits(high: float) -> None:
    seen = view(broker("b1", 20.0), broker("b2", high, rate=10_000, owned=talking(6000, 2000)))
    rounds = play(SHEDDER, *[seen] * 9)
    assert [picked(round_) for round_ in rounds] == [{}] * 7 + [{"b2:1": [ns(1)]}, {}]
    assert rounds[7].decisions[0].code == "apart-for-long"
    assert hits(rounds[0]) == {"b1:1": (0, 1), "b2:1": (0, 1)}


def test_a_sole_bundle_leaves_in_spite_of_the_warning() -> None:
    seen = ten_ninety(talking(4000), rate=10_000)
    assert [picked(round_) for round_ in play(SHEDDER, seen, seen)] == [{}, {"b2:1": [ns(0)]}]


def test_a_broker_keeps_its_hits_when_its_partner_changes() -> None:
    hot = broker("b2", 40.0, rate=10_000, owned=talking(2000, 1000))
    first = view(broker("b1", 20.0), hot, broker("b3", 30.0))
    last = view(broker("b1", 30.0), hot, broker("b3", 20.0))
    rounds = play(SHEDDER, *[first] * 7, last)
    assert [picked(round_) for round_ in rounds] == [{}] * 7 + [{"b2:1": [ns(0), ns(1)]}]
    assert {decision.destination for decision in rounds[7].decisions} == {"b3:1"}


def test_throughput_counts_where_message_rates_are_small() -> None:
    seen = ten_ninety(bundles(30, 6), rate=1000, mib=80)
    assert picked(play(SHEDDER, seen, seen)[1]) == {"b2:1": [ns(0), ns(1)]}


def test_nothing_is_worth_moving_but_the_counters_start_anew() -> None:
    seen = ten_ninety(talking(500, 500), rate=1000, mib=1)
    rounds = play(SHEDDER, *[seen] * 4)
    assert not any(picked(round_) for round_ in rounds)
    assert [hits(round_) for round_ in rounds] == [{"b1:1": (1, 1), "b2:1": (1, 1)}, {}] * 2
    assert codes(rounds[1])["b2:1"] == "too-little-traffic"


def test_equal_brokers_make_no_pair() -> None:
    (round_,) = play(SHEDDER, view(broker("b1", 50.0), broker("b2", 50.0), broker("b3", 50.0)))
    assert not round_.decisions
    assert hits(round_) == {}
    assert set(codes(round_).values()) == {"close-together"}


def test_published_7_six_brokers_make_three_pairs() -> None:
    scores = {"a": 80.0, "b": 51.0, "c": 80.0, "d": 20.0, "e": 52.0, "f": 80.0}
    (round_,) = play(SHEDDER, view(*(broker(name, score) for name, score in scores.items())))
    paired = [{skip.names[0][0], skip.names[1][0]} for skip in round_.skips]
    low = [min(pair, key=lambda name: scores[name]) for pair in paired]
    assert low == ["d", "b", "e"]
    assert [max(pair, key=lambda name: scores[name]) in "acf" for pair in paired] == [True] * 3


def test_the_reason_says_how_many_hits_are_missing() -> None:
    (round_,) = play(SHEDDER, ten_ninety(talking(100, 100), rate=10_000))
    skip = skip_of(round_, "b2:1")
    assert (skip.code, skip.names) == ("waiting-for-hits", ("b2:1", "b1:1"))
    assert "1 of 2 at 40" in skip.text


def pairs_of(
    low: float, high: float, owned: Mapping[str, Load], name: str
) -> tuple[BrokerLoad, BrokerLoad]:
    return broker(f"low-{name}", low), broker(f"high-{name}", high, rate=10_000, owned=owned)


def test_two_bundles_of_equal_averages_share_one_planned_destination() -> None:
    seen = view(
        *pairs_of(1.0, 90.0, talking(3000), "x"), *pairs_of(2.0, 80.0, talking(3000, first=1), "y")
    )
    last = play(SHEDDER, seen, seen)[1]
    assert {decision.bundle: decision.evidence["paired_with"] for decision in last.decisions} == {
        ns(0): "low-x:1",
        ns(1): "low-y:1",
    }
    assert {decision.destination for decision in last.decisions} == {"low-y:1"}
    assert set(last.memory.cluster.planned.values()) == {"low-y:1"}


def test_the_plan_tells_zeros_apart_but_not_nans() -> None:
    def key(value: float) -> str:
        return plan_key(np.array([value] * 4), np.zeros(4), 10, 1000, 1)

    assert key(0.0) != key(-0.0)
    assert key(float("nan")) == key(-float("nan"))
