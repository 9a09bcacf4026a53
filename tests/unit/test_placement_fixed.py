"""Placements with their defects repaired: one story per repair."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strategies.cluster.memory import BrokerMemory, ClusterMemory, Memory
from strategies.errors import SettingsError
from strategies.placement.avg import AvgPlacement, AvgPlacementSettings
from strategies.placement.contract import Candidate, OpensRounds
from strategies.placement.least_long_term_rate import LeastLongTermRate, LeastLongTermRateSettings
from strategies.placement.least_resource_usage import (
    ExtensibleLeastResourceUsage,
    LeastResourceUsage,
    LeastResourceUsageSettings,
    smoothed,
)
from strategies.placement.registry import PLACERS, placer
from strategies.placement.round_robin import RoundRobin
from tests.world.placement import best, brokers, bundle_of, candidate, placed, request

BY_RATE = LeastLongTermRate(LeastLongTermRateSettings())
BY_USAGE = LeastResourceUsage(LeastResourceUsageSettings())
AVG = AvgPlacement(AvgPlacementSettings())


def by_name(*candidates: Candidate) -> dict[str, Candidate]:
    return {known.load.broker: known for known in candidates}


class TestLeastResourceUsage:
    def test_30_percent_is_30_percent(self) -> None:
        """Java's float makes it 30.000002 and keeps b2 out."""
        assert best(BY_USAGE, *brokers(b1=10, b2=30, b3=80)) == ["b1", "b2"]

    def test_without_a_broker_well_below_the_mean_the_least_used_takes_it(self) -> None:
        assert best(BY_USAGE, *brokers(b1=45, b2=50, b3=55)) == ["b1"]

    def test_looking_up_teaches_nothing(self) -> None:
        memory = BY_USAGE.open_round(
            by_name(candidate("b1", 80, 1), candidate("b2", 20, 1)), Memory()
        )
        for _ in range(20):
            answer = placed(BY_USAGE, candidate("b1", 20, 1), candidate("b2", 80, 1), memory=memory)
            assert answer.chosen == "b2"
            memory = answer.memory
        assert smoothed(memory) == {"b1": pytest.approx(0.8), "b2": pytest.approx(0.2)}

    def test_a_round_is_one_sample_if_there_is_a_new_one(self) -> None:
        memory = BY_USAGE.open_round(by_name(candidate("b1", 80, 1)), Memory())
        memory = BY_USAGE.open_round(by_name(candidate("b1", 50, 1)), memory)
        assert smoothed(memory) == {"b1": pytest.approx(0.77)}
        assert BY_USAGE.open_round(by_name(candidate("b1", 50, 1, fresh=False)), memory) == memory

    def test_nonsense_is_no_history(self) -> None:
        assert (
            smoothed(BY_USAGE.open_round(by_name(candidate("b1", float("inf"), 1)), Memory())) == {}
        )

    def test_what_was_placed_before_counts(self) -> None:
        assert best(
            BY_USAGE, candidate("b1", 10, after=40), candidate("b2", 20), candidate("b3", 60)
        ) == ["b2"]

    def test_figures_that_are_no_numbers_are_no_choice(self) -> None:
        answer = placed(BY_USAGE, candidate("b1", float("inf")))
        assert (answer.chosen, answer.code) == (None, "unusable-figures")


class TestLeastLongTermRate:
    def test_a_burst_is_spread(self) -> None:
        arriving = {"t/a/0x0_0x1": bundle_of(500)}
        assert best(
            BY_RATE, candidate("b1", 50, 100, arriving=arriving), candidate("b2", 50, 300)
        ) == ["b2"]

    def test_what_leaves_does_not_count(self) -> None:
        relieved = replace(candidate("b1", 50, 600), leaving={"t/a/0x0_0x1": bundle_of(500)})
        assert best(BY_RATE, relieved, candidate("b2", 50, 300)) == ["b1"]

    def test_of_overloaded_brokers_the_least_overloaded_one(self) -> None:
        answer = placed(BY_RATE, *brokers(b1=90, b2=86, b3=99))
        assert (answer.best, answer.code) == (("b2",), "all-overloaded")

    def test_a_broker_that_will_be_overloaded_is_none_to_choose(self) -> None:
        assert best(BY_RATE, candidate("b1", 50, 0, after=90), candidate("b2", 60, 900)) == ["b2"]

    def test_rates_that_are_no_numbers_are_no_choice(self) -> None:
        answer = placed(
            BY_RATE, candidate("b1", 50, float("inf")), candidate("b2", 50, float("inf"))
        )
        assert (answer.best, answer.chosen, answer.code) == ((), None, "unusable-figures")
        assert best(BY_RATE, candidate("b1", 50, float("nan")), candidate("b2", 50, 900)) == ["b2"]


class TestAvg:
    def test_every_bundle_has_its_own_place_in_the_plan(self) -> None:
        memory = Memory(cluster=ClusterMemory(planned={"t/ns/x": "b1", "t/ns/y": "b2"}))
        three = brokers(b1=50, b2=50, b3=50)
        assert AVG.place(request(*three, bundle="t/ns/x"), memory).chosen == "b1"
        assert AVG.place(request(*three, bundle="t/ns/y"), memory).chosen == "b2"

    def test_an_overloaded_planned_broker_is_passed_over(self) -> None:
        memory = Memory(cluster=ClusterMemory(planned={"t/ns/0x0_0x1": "b1"}))
        answer = placed(AVG, candidate("b1", 50, after=90), candidate("b2", 60), memory=memory)
        assert (answer.chosen, answer.code) == ("b2", "least-used")

    def test_unless_all_are_overloaded(self) -> None:
        memory = Memory(cluster=ClusterMemory(planned={"t/ns/0x0_0x1": "b1"}))
        assert placed(AVG, *brokers(b1=95, b2=90), memory=memory).chosen == "b1"

    def test_brand_new_bundles_spread_over_equally_used_brokers(self) -> None:
        taken = {"t/ns/0x1_0x2": bundle_of(0)}
        assert best(
            AVG, candidate("b1", 50, arriving=taken), candidate("b2", 50.5), candidate("b3", 55)
        ) == ["b2"]


class TestRoundRobin:
    def test_who_joins_or_leaves_does_not_disturb_the_order(self) -> None:
        memory = placed(RoundRobin(), *brokers(a=1, c=1)).memory
        answer = placed(RoundRobin(), *brokers(a=1, b=1, c=1), memory=memory)
        assert answer.chosen == "b"
        assert placed(RoundRobin(), *brokers(a=1), memory=answer.memory).chosen == "a"


def test_the_extensible_rule_uses_the_averages_of_shedding() -> None:
    rule = ExtensibleLeastResourceUsage(LeastResourceUsageSettings())
    memory = Memory({"b1": BrokerMemory(ewma=0.9), "b2": BrokerMemory(ewma=0.1)})
    assert best(rule, *brokers(b1=0, b2=50, b3=50), memory=memory) == ["b2"]


def test_the_registry_builds_both_forms_of_each() -> None:
    assert {
        type(placer(name, None, mode)).__name__ for name in PLACERS for mode in ("parity", "fixed")
    } >= {"AvgPlacement", "RoundRobin"}
    assert all(entry.pulsar_class.startswith("org.apache.pulsar.") for entry in PLACERS.values())


def test_only_the_modular_least_resource_usage_opens_rounds() -> None:
    """A placer opens rounds by having `open_round`; with another name, its memory stays stale."""
    opening = [
        (name, mode)
        for name in PLACERS
        for mode in ("parity", "fixed")
        if isinstance(placer(name, None, mode), OpensRounds)
    ]
    assert opening == [("least_resource_usage", "fixed")]


def test_the_registry_knows_its_names_and_their_settings() -> None:
    with pytest.raises(
        SettingsError, match="'nobody' is not known; choose one of least_long_term_rate"
    ):
        placer("nobody", None, "fixed")
    with pytest.raises(SettingsError, match="belong to another placement"):
        placer("avg", LeastResourceUsageSettings(), "fixed")
