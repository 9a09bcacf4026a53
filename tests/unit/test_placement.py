"""Placements: one story per repair, and what Java's have beside the vectors."""

from dataclasses import replace

import pytest

from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.errors import SettingsError
from strategies.placement.avg import AvgPlacement, AvgPlacementSettings
from strategies.placement.compared_levels_and_draw import draw
from strategies.placement.contract import UNKNOWN, Candidate, OpensRounds, Placer, Request
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
BY_RATE = LeastLongTermRate(LeastLongTermRateSettings())
BY_USAGE = LeastResourceUsage(LeastResourceUsageSettings())
AVG = AvgPlacement(AvgPlacementSettings())
INF, NAN = float("inf"), float("nan")
#: Who has less once a bundle has left; who gets a brand-new one.
RELIEVED = replace(candidate("b1", 50, 600), leaving={"t/a/0x0_0x1": bundle_of(500)})
SERVED = candidate("b1", 50, arriving={"t/ns/0x1_0x2": bundle_of(0)})


@pytest.mark.parametrize(
    ("rule", "candidates", "best", "code"),
    [
        (JAVA_USAGE, brokers(b1=45, b2=50, b3=55), "b1 b2 b3", "nobody-below-mean"),
        (JAVA_RATE, brokers(b1=86, b2=86, b3=86), "b1 b2 b3", "all-overloaded"),
        (JAVA_RATE, [], "", "no-candidates"),
        (BY_USAGE, [candidate("b1", 10, after=40), *brokers(b2=20, b3=60)], "b2", "least-used"),
        (BY_USAGE, [candidate("b1", INF)], "", "unusable-figures"),
        (BY_RATE, [RELIEVED, candidate("b2", 50, 300)], "b1", "least-rate"),
        (BY_RATE, brokers(b1=90, b2=86, b3=99), "b2", "all-overloaded"),
        (BY_RATE, [candidate("b1", 50, 0, after=90), candidate("b2", 60, 9)], "b2", "least-rate"),
        (BY_RATE, [candidate("b1", 50, NAN), candidate("b2", 50, 900)], "b2", "least-rate"),
        (BY_RATE, [candidate("b1", 50, INF), candidate("b2", 50, INF)], "", "unusable-figures"),
        (AVG, [SERVED, *brokers(b2=50.5, b3=55)], "b2", "least-used"),
    ],
    ids=[
        "Java by usage: nobody is well below the mean, so anybody will do",
        "Java by rate: all are overloaded, so anybody will do",
        "nobody is chosen from nobody",
        "what was placed before counts",
        "a usage that is no number is no choice",
        "what leaves does not count",
        "of overloaded brokers the least overloaded one",
        "a broker that will be overloaded is none to choose",
        "a rate that is no number is no choice beside another",
        "rates that are no numbers are no choice",
        "brand-new bundles spread over equally used brokers",
    ],
)
def test_the_best_candidates_and_why(
    rule: Placer, candidates: list[Candidate], best: str, code: str
) -> None:
    answer = placed(rule, *candidates)
    assert (answer.best, answer.code) == (tuple(best.split()), code)
    assert answer.chosen in answer.best if best else answer.chosen is None


def test_a_candidate_that_nothing_is_known_of_ends_the_look_up_in_java() -> None:
    answer = JAVA_USAGE.place(Request("x", UNKNOWN, {"b1": None}, ""), Memory())
    assert (answer.chosen, answer.code) == (None, "unknown-broker")


def test_an_overloaded_planned_broker_is_passed_over() -> None:
    memory = Memory(cluster=ClusterMemory(planned={"t/ns/0x0_0x1": "b1"}))
    answer = placed(AVG, candidate("b1", 50, after=90), candidate("b2", 60), memory=memory)
    assert (answer.chosen, answer.code) == ("b2", "least-used")


def test_a_draw_depends_on_the_question_and_on_nothing_else() -> None:
    assert draw(["b", "a", "c"], "x") == draw(["c", "b", "a"], "x")
    drawn = [draw(["a", "b", "c", "d"], str(seed)) for seed in range(400)]
    assert all(60 < drawn.count(name) < 140 for name in "abcd")


def opened(*candidates: Candidate, memory: Memory = Memory()) -> Memory:
    """After a round of the placement by usage has begun."""
    return BY_USAGE.open_round({known.load.broker: known for known in candidates}, memory)


def test_looking_up_teaches_nothing() -> None:
    memory = opened(candidate("b1", 80, 1), candidate("b2", 20, 1))
    for _ in range(20):
        answer = placed(BY_USAGE, candidate("b1", 20, 1), candidate("b2", 80, 1), memory=memory)
        assert answer.chosen == "b2"
        memory = answer.memory
    assert smoothed(memory) == {"b1": pytest.approx(0.8), "b2": pytest.approx(0.2)}


def test_a_round_is_one_sample_if_there_is_a_new_one() -> None:
    memory = opened(candidate("b1", 50, 1), memory=opened(candidate("b1", 80, 1)))
    assert smoothed(memory) == {"b1": pytest.approx(0.77)}
    assert opened(candidate("b1", 50, 1, fresh=False), memory=memory) == memory
    assert smoothed(opened(candidate("b1", INF, 1))) == {}, "nonsense is no history"


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
    said = "'nobody' is not known; choose one of least_long_term_rate"
    with pytest.raises(SettingsError, match=said):
        placer("nobody", None, "fixed")
    with pytest.raises(SettingsError, match="belong to another placement"):
        placer("avg", LeastResourceUsageSettings(), "fixed")
