"""TransferShedder in the live round: from brokers' reports to decisions with destinations, and
reasons for what stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.model import BrokerLoad, ClusterView
from strategies.settings import Mode
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import shedder
from strategies.shedding.transfer.settings import TransferSettings
from tests.world.brokers import (
    MIB,
    WEIGHTS,
    Load,
    broker,
    bundles,
    codes,
    ewmas,
    ns,
    picked,
    play,
    skip_of,
    view,
)

ONE_HOT_OF_THREE = (
    broker("b1", 90.0, 100.0, bundles(2, 5, 10, 30)),
    broker("b2", 30.0, 30.0, bundles(5, 8, first=4)),
    broker("b3", 20.0, 20.0, bundles(4, 6, first=8)),
)


def rounds(
    *views: ClusterView, mode: Mode = "fixed", settings: TransferSettings | None = None
) -> list[Shedding]:
    return play(shedder("transfer", settings, WEIGHTS, mode), *views)


def at_once(
    *brokers: BrokerLoad, settings: TransferSettings | None = None, cooling: tuple[str, ...] = ()
) -> Shedding:
    return rounds(
        view(*brokers, cooling=cooling), settings=settings or TransferSettings(hit_count=0)
    )[0]


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_the_fourth_uneven_round_moves(mode: Mode) -> None:
    found = rounds(*[view(*ONE_HOT_OF_THREE)] * 4, mode=mode)
    assert [codes(round_).get("c") for round_ in found] == ["waiting-for-hits"] * 3 + [None]
    assert picked(found[3]) == {"b1:1": [ns(0), ns(1), ns(2)]}
    assert {decision.destination for decision in found[3].decisions} == {"b3:1"}
    assert found[3].memory.cluster.hits == 0
    assert codes(found[3]) == {"b2:1": "not-at-the-ends", ns(3): "not-needed"}


def test_a_decision_reads_as_a_sentence() -> None:
    assert at_once(*ONE_HOT_OF_THREE).decisions[0].text == (
        "usage averages 46.7 % with a standard deviation of 30.9 %, and b1:1 is at 90.0 %: "
        "2.0 MiB/s leave with this bundle for b3:1"
    )


def test_swaps_name_both_directions() -> None:
    round_ = at_once(
        broker("b1", 90.0, 100.0, bundles(45, 55)),
        broker("b2", 10.0, 20.0, bundles(5, 15, first=2)),
    )
    assert [
        (decision.bundle, decision.destination, decision.code) for decision in round_.decisions
    ] == [
        (ns(2), "b1:1", "swap"),
        (ns(0), "b2:1", "overloaded"),
    ]


def test_usage_is_averaged_and_only_new_samples_count() -> None:
    first, second = broker("b1", 80.0), broker("b1", 50.0)
    other, same = broker("b2", 50.0), broker("b1", 50.0, fresh=False)
    found = rounds(view(first, other), view(second, other), view(same, other))
    assert [ewmas(round_)["b1:1"] for round_ in found] == pytest.approx([0.8, 0.77, 0.77])


def test_only_the_heaviest_bundles_are_looked_at() -> None:
    loads = bundles(*range(1, 13))
    round_ = at_once(broker("b1", 90.0, 78.0, loads), broker("b2", 10.0))
    assert picked(round_)["b1:1"][0] == ns(2)
    assert {name for name, code in codes(round_).items() if code == "not-among-the-heaviest"} == {
        ns(0),
        ns(1),
    }


def test_excluded_namespaces_system_bundles_and_cooling_ones_stay() -> None:
    owned = {
        "pulsar/b1:8080/0x0_0xf": Load(3.0),
        "quiet/ns/0x0_0xf": Load(4.0),
        **bundles(5, 6, 7, 60),
    }
    settings = TransferSettings(hit_count=0, excluded_namespaces="quiet/ns")
    round_ = at_once(
        broker("b1", 90.0, 100.0, owned), broker("b2", 10.0), settings=settings, cooling=(ns(0),)
    )
    assert picked(round_) == {"b1:1": [ns(1), ns(2)]}
    assert codes(round_) == {
        "pulsar/b1:8080/0x0_0xf": "system-bundle",
        "quiet/ns/0x0_0xf": "excluded-namespace",
        ns(0): "cooling-down",
        ns(3): "not-needed",
    }


def test_settling_brokers_are_neither_end() -> None:
    hot = broker("b1", 99.0, 100.0, bundles(10, 20), settling=True)
    round_ = at_once(
        hot, broker("b2", 90.0, 90.0, bundles(5, 10, 75, first=4)), broker("b3", 5.0, 5.0)
    )
    assert set(picked(round_)) == {"b2:1"}
    assert codes(round_)["b1:1"] == "settling"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ((broker("b1", 50.0, 50.0, bundles(25, 25)), broker("b2", 50.0, 50.0)), "even"),
        ((broker("b1", 90.0, 50.0, bundles(50)), broker("b2", 10.0, 10.0)), "too-few-bundles"),
        ((broker("b1", 90.0, 50.0), broker("b2", 10.0, 10.0)), "no-bundle-figures"),
        ((broker("b1", 90.0, 50.0),), "nobody-to-judge"),
    ],
)
def test_a_round_that_moves_nothing_says_why(seen: tuple[BrokerLoad, ...], code: str) -> None:
    assert codes(at_once(*seen)) == {"c": code}


@pytest.mark.parametrize(("mode", "std"), [("fixed", 0.0), ("parity", None)])
def test_a_spread_that_rounding_swallows_is_unknown_in_java(mode: Mode, std: float | None) -> None:
    """Three times 10 %: the mean of squares minus the square of the mean is a little below 0, and
    Java takes its root.
    """
    (round_,) = rounds(view(*(broker(name, 10.0) for name in ("b1", "b2", "b3"))), mode=mode)
    assert skip_of(round_, "c").evidence["std"] == (
        pytest.approx(std, abs=1e-15) if std is not None else None
    )
    assert ("rounding leaves no standard deviation" in skip_of(round_, "c").text) == (
        mode == "parity"
    )


def averaged(load: BrokerLoad, usage: float, mib: float, updated_s: float = 0.0) -> BrokerLoad:
    """The broker as the extensible load manager tells of it, with averages of its own."""
    own: dict[str, Any] = {
        "usage_average": usage,
        "throughput_average": mib * MIB,
        "updated_at_ms": int(updated_s * 1000),
    }
    return replace(load, figures=replace(load.figures, **own))


def at(seconds: float, *brokers: BrokerLoad) -> ClusterView:
    return ClusterView("c", int(seconds * 1000), brokers)


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_a_brokers_own_averages_decide_where_its_report_has_them(mode: Mode) -> None:
    calm = (
        averaged(broker("b1", 99.0, 100.0, bundles(2, 5, 10, 30)), 0.5, 50.0),
        averaged(broker("b2", 1.0, 20.0), 0.5, 50.0),
    )
    found = rounds(view(*calm), mode=mode, settings=TransferSettings(hit_count=0))[0]
    assert codes(found) == {"c": "even"}
    assert ewmas(found) == {"b1:1": 0.5, "b2:1": 0.5}


@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_averaged_throughput_says_who_is_underloaded(mode: Mode) -> None:
    """Now nearly idle, but not on the average: the newest figure alone is no reason."""
    busy, idle = broker("b1", 55.0, 100.0, bundles(2, 5, 93)), broker("b2", 45.0, 5.0)
    settings = TransferSettings(hit_count=0)
    assert picked(rounds(view(busy, idle), mode=mode, settings=settings)[0])
    was_busy = rounds(
        view(broker("b1", 55.0, 100.0), broker("b2", 45.0, 100.0)),
        view(busy, idle),
        mode=mode,
        settings=settings,
    )
    assert codes(was_busy[1]) == {"c": "even"}
    assert codes(
        rounds(
            view(averaged(busy, 0.55, 100.0), averaged(idle, 0.45, 90.0)),
            mode=mode,
            settings=settings,
        )[0]
    ) == {"c": "even"}


def test_a_broker_that_gave_rests_until_its_figures_are_late_enough() -> None:
    hot = broker("b1", 90.0, 100.0, bundles(2, 5, 10, 30))
    others = broker("b2", 60.0, 60.0, bundles(20, 40, first=4)), broker("b3", 10.0, 10.0)
    settings = TransferSettings(hit_count=0, delay_s=180)
    told = rounds(*(at(seconds, hot, *others) for seconds in (0, 60, 180)), settings=settings)
    assert "b1:1" in picked(told[0])
    assert codes(told[1])["b1:1"] == "cooling-down"
    assert "b1:1" not in picked(told[1])
    assert "b1:1" in picked(told[2])


def test_in_parity_mode_everybody_rests_with_it() -> None:
    told = rounds(
        *(at(seconds, *ONE_HOT_OF_THREE) for seconds in (0, 60, 180)),
        mode="parity",
        settings=TransferSettings(hit_count=0),
    )
    assert [bool(picked(round_)) for round_ in told] == [True, False, True]
    assert codes(told[1]) == {"c": "cooling-down"}


def test_load_data_that_are_too_old_are_not_used() -> None:
    settings = TransferSettings(hit_count=0, ttl_s=60)
    old, hot, idle = averaged(broker("b1", 90.0), 0.9, 50.0), *ONE_HOT_OF_THREE[:2]
    told = rounds(at(61, replace(old, broker="old:1"), hot, idle), settings=settings)[0]
    assert codes(told)["old:1"] == "outdated"
    told = rounds(
        at(61, replace(idle, broker="old:1", reported_at_ms=0), hot, idle), settings=settings
    )[0]
    assert codes(told)["old:1"] == "outdated"


def test_in_fixed_mode_a_broker_whose_clock_is_ahead_rests_all_the_same() -> None:
    hot = [
        averaged(load, usage, mib, 9999.0)
        for load, usage, mib in (
            (ONE_HOT_OF_THREE[0], 0.9, 100.0),
            (ONE_HOT_OF_THREE[1], 0.3, 30.0),
            (ONE_HOT_OF_THREE[2], 0.2, 20.0),
        )
    ]
    told = rounds(at(0, *hot), at(60, *hot), settings=TransferSettings(hit_count=0))
    assert "b1:1" in picked(told[0])
    assert codes(told[1])["b1:1"] == "cooling-down"
