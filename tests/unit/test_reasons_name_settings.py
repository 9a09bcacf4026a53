"""Why nothing moves: a reason that comes from a setting names it with its value, so that it can be
found and changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from pulsar_rebalancer.settings.load import load
from strategies.cluster.memory import Memory
from strategies.cluster.model import ClusterView, Decision, Skip
from strategies.filters.pipeline import Filters, FilterSettings
from strategies.filters.policies import PoliciesView
from strategies.placement.destination_rules import DestinationRules, DestinationSettings
from strategies.placement.destinations import Destinations
from strategies.placement.registry import placer
from strategies.settings import Mode, Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.contract import Shedding
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import shedder
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.uniform.settings import UniformSettings
from tests.world.brokers import WEIGHTS, broker, bundles, talking, view
from tests.world.sheddings import play

NAMED = re.compile(r"([a-z_]+(?:\.[a-z_]+)+) = (\S+?)(?=[\s),;]|$)")
MODES: tuple[Mode, ...] = ("parity", "fixed")


def texts(rounds: Iterable[Shedding], code: str) -> list[str]:
    return [skip.text for round_ in rounds for skip in round_.skips if skip.code == code]


def named(text: str) -> dict[str, float]:
    """Settings of a reason; each exists, and can be given as it stands there."""
    found = dict(NAMED.findall(text))
    load(flags=[f"{path}={value}" for path, value in found.items()])
    return {path: float(value) for path, value in found.items()}


def small() -> ClusterView:
    """80 points apart, and with 300 msg/s as much traffic as a small cluster has."""
    return view(
        broker("hot", 90.0, rate=300, owned=talking(100, 100, 100)), broker("idle", 10.0, rate=0)
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_small_cluster_hears_which_minimum_rate_keeps_avg_from_moving(mode: Mode) -> None:
    rounds = play(shedder("avg", None, WEIGHTS, mode), small(), small())
    (text,) = texts(rounds, "too-little-traffic")
    defaults = AvgSettings()
    assert named(text) == {
        "shedding.avg.max_unload": defaults.max_unload,
        "shedding.avg.min_msg_rate": defaults.min_msg_rate,
        "shedding.avg.min_throughput": defaults.min_throughput,
    }


@pytest.mark.parametrize("mode", MODES)
def test_hits_and_thresholds_of_avg_are_named(mode: Mode) -> None:
    (waiting,) = texts(play(shedder("avg", None, WEIGHTS, mode), small()), "waiting-for-hits")
    assert named(waiting) == {"shedding.avg.hit_count_low": 8, "shedding.avg.hit_count_high": 2}
    near = view(broker("a", 50.0), broker("b", 45.0))
    for text in texts(play(shedder("avg", None, WEIGHTS, mode), near), "close-together"):
        assert named(text) == {"shedding.avg.low_threshold": 15}


@pytest.mark.parametrize("mode", MODES)
def test_the_threshold_that_nobody_is_above_is_named(mode: Mode) -> None:
    even = view(broker("a", 50.0, owned=bundles(5, 5)), broker("b", 48.0, owned=bundles(5, 5)))
    threshold = texts(
        play(shedder("threshold", ThresholdSettings(threshold_percent=12.5), WEIGHTS, mode), even),
        "below-threshold",
    )
    assert [named(text) for text in threshold] == [
        {"shedding.threshold.threshold_percent": 12.5}
    ] * 2
    overload = texts(
        play(shedder("overload", OverloadSettings(), WEIGHTS, mode), even), "not-overloaded"
    )
    assert [named(text) for text in overload] == [{"shedding.overload.threshold_percent": 85}] * 2
    (uniform,) = texts(play(shedder("uniform", UniformSettings(), WEIGHTS, mode), even), "even")
    assert named(uniform) == {
        "shedding.uniform.rate_difference_percent": 50,
        "shedding.uniform.throughput_ratio": 4,
    }


def test_brokers_that_share_a_busy_machine_hear_which_limit_keeps_every_bundle() -> None:
    """All report the CPU of their machine; a strategy that evens traffic out finds nowhere to put
    it.
    """
    owned = talking(600, 600, 600)
    seen = view(broker("a", 92.0, rate=1800, owned=owned), broker("b", 93.0), broker("c", 93.0))

    def answer(weights: Weights) -> Decision | Skip:
        rules = DestinationRules(
            placer("least_resource_usage", None, "fixed"),
            Filters(FilterSettings(distribute_evenly=False), "fixed"),
            DestinationSettings(),
            weights,
            balances_usage=False,
        )
        round_ = Destinations(seen, 1, rules, policies=PoliciesView(), memory=Memory())
        return round_.name(
            Decision(next(iter(owned)), "a:1", None, "rate-uneven", "it carries more")
        )

    kept = answer(Weights())
    assert isinstance(kept, Skip)
    assert (kept.code, named(kept.text)) == ("would-overload", {"placement.overloaded_percent": 85})
    assert isinstance(answer(Weights(cpu=0)), Decision), "what the page says helps"


@pytest.mark.parametrize("mode", MODES)
def test_the_deviation_that_transfer_accepts_is_named(mode: Mode) -> None:
    even = view(broker("a", 50.0, owned=bundles(5, 5)), broker("b", 48.0, owned=bundles(5, 5)))
    (text,) = texts(play(shedder("transfer", TransferSettings(), WEIGHTS, mode), even), "even")
    assert named(text) == {"shedding.transfer.target_std": 0.25}


def test_a_bundle_that_rests_names_its_cool_down() -> None:
    seen = replace(
        view(broker("hot", 90.0, 50.0, bundles(20, 20, 20)), broker("idle", 5.0)),
        cool_down_ms=1_800_000,
    )
    resting = replace(seen, cooling=frozenset(seen.brokers[0].bundles.names[:1]))
    rounds = play(shedder("overload", None, WEIGHTS, "fixed"), resting)
    (text,) = texts(rounds, "cooling-down")
    assert named(text) == {"round.cool_down_ms": 1_800_000}


def test_the_skips_that_are_told_of_very_many_brokers_name_it_too() -> None:
    many = view(*(broker(f"b{number}", 40.0) for number in range(120)))
    (skip,) = [
        skip
        for skip in _first(shedder("overload", None, WEIGHTS, "fixed"), many).skips
        if skip.code == "not-overloaded"
    ]
    assert isinstance(skip, Skip)
    assert named(skip.text) == {"shedding.overload.threshold_percent": 85}


def _first(rule: object, seen: ClusterView) -> Shedding:
    (round_,) = play(rule, seen)  # type: ignore[arg-type]
    return round_
