"""Placements: one story per repair, and what Java's have beside the vectors."""

from dataclasses import replace

import pytest

from pulsar_rebalancer.lab.conformance.case_data import only_active
from strategies.cluster.memory import NO_MEMORY, BrokerMemory, ClusterMemory, Memory
from strategies.errors import SettingsError
from strategies.placement.avg import AvgPlacement, AvgPlacementSettings, ParityAvgPlacement, key_of
from strategies.placement.contract import UNKNOWN, Candidate, OpensRounds, Request, draw
from strategies.placement.least_long_term_rate import (
    LeastLongTermRate,
    LeastLongTermRateSettings,
    ParityLeastLongTermRate,
)
from strategies.placement.least_resource_usage import (
    LeastResourceUsage,
    LeastResourceUsageSettings,
    ParityLeastResourceUsage,
    smoothed,
)
from strategies.placement.least_resource_usage_extensible import ExtensibleLeastResourceUsage
from strategies.placement.registry import PLACERS, placer
from tests.world.placement import best, brokers, bundle_of, candidate, placed

JAVA_RATE = ParityLeastLongTermRate(LeastLongTermRateSettings())


JAVA_USAGE = ParityLeastResourceUsage(LeastResourceUsageSettings())


class TestLeastResourceUsageAsInJava:
    def test_nobody_is_well_below_the_mean_so_anybody_will_do(self) -> None:
        answer = placed(JAVA_USAGE, *brokers(b1=45, b2=50, b3=55))
        assert (answer.best, answer.code) == (("b1", "b2", "b3"), "nobody-below-mean")
        assert answer.chosen in answer.best

    def test_brokers_that_are_gone_lose_their_history_and_nothing_else(self) -> None:
        memory = Memory(
            {"a": BrokerMemory(placement_ewma=0.5), "b": BrokerMemory(ewma=0.1, placement_ewma=0.5)}
        )
        assert only_active(memory, ["c"], "placement_ewma").brokers == {
            "a": NO_MEMORY,
            "b": BrokerMemory(ewma=0.1),
        }
        assert only_active(memory, None, "placement_ewma") == memory

    def test_a_candidate_that_nothing_is_known_of_ends_the_look_up(self) -> None:
        answer = JAVA_USAGE.place(Request("x", UNKNOWN, {"b1": None}, ""), Memory())
        assert (answer.chosen, answer.code) == (None, "unknown-broker")


class TestLeastLongTermRateAsInJava:
    def test_all_overloaded_so_anybody_will_do(self) -> None:
        answer = placed(JAVA_RATE, *brokers(b1=86, b2=86, b3=86, b4=86))
        assert (answer.best, answer.code) == (("b1", "b2", "b3", "b4"), "all-overloaded")

    def test_nobody_is_chosen_from_nobody(self) -> None:
        answer = placed(JAVA_RATE)
        assert (answer.best, answer.chosen, answer.code) == ((), None, "no-candidates")


class TestAvgAsInJava:
    def test_a_planned_broker_that_is_no_candidate_is_replaced_in_the_plan(self) -> None:
        first = placed(ParityAvgPlacement(), *brokers(a=1)).memory
        answer = placed(ParityAvgPlacement(), *brokers(b=1), memory=first)
        assert (answer.chosen, answer.code) == ("b", "drawn")
        assert answer.memory.cluster.planned == {key_of(UNKNOWN): "b"}


def test_a_draw_depends_on_the_question_and_on_nothing_else() -> None:
    assert draw(["b", "a", "c"], "x") == draw(["c", "b", "a"], "x")
    drawn = [draw(["a", "b", "c", "d"], str(seed)) for seed in range(400)]
    assert all(60 < drawn.count(name) < 140 for name in "abcd")


BY_RATE = LeastLongTermRate(LeastLongTermRateSettings())


BY_USAGE = LeastResourceUsage(LeastResourceUsageSettings())


AVG = AvgPlacement(AvgPlacementSettings())


def by_name(*candidates: Candidate) -> dict[str, Candidate]:
    return {known.load.broker: known for known in candidates}


class TestLeastResourceUsage:
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
    def test_an_overloaded_planned_broker_is_passed_over(self) -> None:
        memory = Memory(cluster=ClusterMemory(planned={"t/ns/0x0_0x1": "b1"}))
        answer = placed(AVG, candidate("b1", 50, after=90), candidate("b2", 60), memory=memory)
        assert (answer.chosen, answer.code) == ("b2", "least-used")

    def test_brand_new_bundles_spread_over_equally_used_brokers(self) -> None:
        taken = {"t/ns/0x1_0x2": bundle_of(0)}
        assert best(
            AVG, candidate("b1", 50, arriving=taken), candidate("b2", 50.5), candidate("b3", 55)
        ) == ["b2"]


def test_the_extensible_rule_uses_the_averages_of_shedding() -> None:
    rule = ExtensibleLeastResourceUsage(LeastResourceUsageSettings())
    memory = Memory({"b1": BrokerMemory(ewma=0.9), "b2": BrokerMemory(ewma=0.1)})
    assert best(rule, *brokers(b1=0, b2=50, b3=50), memory=memory) == ["b2"]


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
