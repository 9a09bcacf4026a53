"""AvgShedder with its defects repaired: one story per repair, and what the repairs must not
change.
"""

from __future__ import annotations

from dataclasses import replace
from math import nan

import pytest

from strategies.cluster.memory import BrokerMemory, ClusterMemory, Memory
from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.shedding.avg.fixed import AvgShedder
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

SHEDDER = AvgShedder(AvgSettings(max_unload=0.5), WEIGHTS)
SPARE = {ns(14): Load(), ns(15): Load()}


def test_five_uneven_brokers_are_answered_as_by_java() -> None:
    seen = five_uneven_brokers()
    rounds = play(SHEDDER, seen, seen, seen)
    assert [picked(round_) for round_ in rounds] == [{}, {"b5:1": [ns(1), ns(2)]}, {}]
    assert {decision.destination for decision in rounds[1].decisions} == {"b1:1"}


@pytest.mark.parametrize("high", [36.0, 35.0])
def test_a_smaller_difference_takes_eight_samples(high: float) -> None:
    seen = view(broker("b1", 20.0), broker("b2", high, rate=10_000, owned=talking(6000, 2000)))
    assert [picked(round_) for round_ in play(SHEDDER, *[seen] * 9)] == [{}] * 7 + [
        {"b2:1": [ns(1)]},
        {},
    ]


def test_a_reason_tells_the_figures_in_one_sentence() -> None:
    seen = ten_ninety(talking(3000, 6000), rate=10_000)
    (decision,) = play(SHEDDER, seen, seen)[1].decisions
    assert decision.code == "far-apart"
    assert decision.text == (
        "b2:1 at 90.0 % is 80.0 points above b1:1 at 10.0 % after 2 urgent hits in a row: "
        "3,000 msg/s of the 5,000 msg/s to move go to b1:1"
    )


def test_a_repeated_report_is_no_hit() -> None:
    owned = talking(3000, 2000)
    new, old = ten_ninety(owned, rate=10_000), ten_ninety(owned, rate=10_000, fresh=False)
    rounds = play(SHEDDER, new, old, old, new)
    assert [bool(round_.decisions) for round_ in rounds] == [False, False, False, True]
    assert hits(rounds[2]) == {"b1:1": (1, 1), "b2:1": (1, 1)}


def test_only_the_broker_with_a_new_sample_is_hit() -> None:
    seen = view(
        broker("b1", 10.0, fresh=False), broker("b2", 90.0, rate=10_000, owned=talking(3000, 2000))
    )
    rounds = play(SHEDDER, seen, seen)
    assert hits(rounds[0]) == {"b2:1": (1, 1)}
    assert rounds[1].decisions


def test_old_figures_do_not_clear_hits_either() -> None:
    memory = Memory({"b1:1": BrokerMemory(hit_low=5), "b2:1": BrokerMemory(hit_low=5)})
    calm = view(broker("b1", 50.0, fresh=False), broker("b2", 55.0, fresh=False))
    assert hits(play(SHEDDER, calm, memory=memory)[0]) == {"b1:1": (None, 5), "b2:1": (None, 5)}
    assert hits(play(SHEDDER, view(broker("b1", 50.0), broker("b2", 55.0)), memory=memory)[0]) == {}


def test_a_settling_broker_is_neither_paired_nor_counted() -> None:
    memory = Memory({"b1:1": BrokerMemory(hit_low=5)})
    seen = view(
        broker("b1", 10.0, settling=True),
        broker("b2", 90.0, rate=10_000, owned=talking(3000, 2000)),
        broker("b3", 60.0),
    )
    rounds = play(SHEDDER, seen, seen, memory=memory)
    assert codes(rounds[0])["b1:1"] == "settling"
    assert hits(rounds[0])["b1:1"] == (None, 5)
    assert skip_of(rounds[0], "b2:1").names == ("b2:1", "b3:1")


def test_the_only_broker_left_keeps_its_hits() -> None:
    memory = Memory({"b2:1": BrokerMemory(hit_low=5)})
    seen = view(broker("b1", 10.0, settling=True), broker("b2", 90.0))
    assert hits(play(SHEDDER, seen, memory=memory)[0]) == {"b2:1": (None, 5)}


def test_a_sole_bundle_stays() -> None:
    seen = ten_ninety(talking(4000), rate=10_000)
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {}
    assert codes(last)["b2:1"] == "sole-bundle"


@pytest.mark.parametrize(
    "name",
    [
        "pulsar/b2:8080/0x0_0xf",
        "pulsar/c/b2:8080/0x0_0xf",
        "sla-monitor/c/b2:8080/0x0_0xf",
        "pulsar/system/0x0_0xf",
    ],
)
def test_system_bundles_stay_and_make_no_second_bundle(name: str) -> None:
    seen = ten_ninety({name: Load(rate=3000.0), **talking(1000, 500)}, rate=10_000)
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(0), ns(1)]}
    assert codes(last)[name] == "system-bundle"
    seen = ten_ninety({name: Load(rate=100.0), **talking(1000)}, rate=10_000)
    assert codes(play(SHEDDER, seen, seen)[1])["b2:1"] == "sole-bundle"


def two_pairs() -> ClusterView:
    """Two pairs that are equally far apart and whose bundles have equal averages."""
    return view(
        broker("low-x", 1.0),
        broker("low-y", 2.0),
        broker("high-x", 91.0, rate=10_000, owned={**talking(3000), **SPARE}),
        broker("high-y", 92.0, rate=10_000, owned=talking(3000, 10, first=1)),
    )


def test_bundles_of_equal_averages_go_where_their_own_pair_sends_them() -> None:
    last = play(SHEDDER, two_pairs(), two_pairs())[1]
    wanted = {ns(0): "low-y:1", ns(1): "low-x:1", ns(2): "low-x:1"}
    assert {decision.bundle: decision.destination for decision in last.decisions} == wanted
    assert last.memory.cluster.planned == wanted


def test_the_plan_is_good_for_one_round() -> None:
    rounds = play(SHEDDER, two_pairs(), two_pairs(), two_pairs())
    assert rounds[2].memory.cluster.planned == {}
    assert (
        play(SHEDDER, view(), memory=Memory(cluster=ClusterMemory(planned={"x": "y"})))[
            0
        ].memory.cluster.planned
        == {}
    )


def test_a_bundle_that_two_brokers_report_leaves_once() -> None:
    def hot(name: str, score: float) -> BrokerLoad:
        return broker(name, score, rate=10_000, owned=talking(3000, 100))

    seen = view(broker("a", 1.0), broker("b", 2.0), hot("c", 91.0), hot("d", 92.0))
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"d:1": [ns(0), ns(1)]}
    assert codes(last)["c:1"] == "nothing-fits"
    assert [skip.code for skip in last.skips if ns(0) in skip.names] == ["already-leaving"]


def test_bundles_that_are_resting_idle_or_too_big_stay_with_a_reason() -> None:
    owned = {**talking(9000, 3000, 500), **SPARE}
    seen = replace(ten_ninety(owned, rate=10_000), cooling=frozenset({ns(1)}))
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(2)]}
    assert codes(last) == {
        ns(0): "does-not-fit",
        ns(1): "cooling-down",
        ns(14): "does-not-fit",
        ns(15): "does-not-fit",
    }


def test_a_broker_without_a_finite_usage_is_left_out() -> None:
    blind = broker("b3", nan)
    no = replace(blind.figures.cpu, usage=nan)
    blind = replace(
        blind,
        figures=replace(blind.figures, cpu=no, direct_memory=no, bandwidth_in=no, bandwidth_out=no),
    )
    seen = view(*ten_ninety(talking(3000, 10), rate=10_000).brokers, blind)
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(0), ns(1)]}
    assert codes(last)["b3:1"] == "unusable-figures"


def test_throughput_counts_where_message_rates_are_small() -> None:
    seen = ten_ninety(bundles(30, 6), rate=1000, mib=80)
    last = play(SHEDDER, seen, seen)[1]
    assert picked(last) == {"b2:1": [ns(0), ns(1)]}
    assert "30.0 MiB/s of the 40.0 MiB/s" in last.decisions[0].text


def test_equal_scores_pair_by_name_and_many_waiting_pairs_share_one_sentence() -> None:
    seen = [broker(f"b{number:03}", 80.0 if number % 2 else 20.0) for number in range(200)]
    one, other = play(SHEDDER, view(*seen))[0], play(SHEDDER, view(*seen[::-1]))[0]
    assert one == other
    (skip,) = one.skips
    assert skip.code == "waiting-for-hits"
    assert len(skip.names) == 200
    assert skip.text.startswith(
        "200 brokers for the same reason, such as: b199:1 at 80.0 % is 60.0 points above b000:1"
    )
