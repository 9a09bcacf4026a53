"""Placements as Pulsar 4.2.4 runs them: its decisions and their figures."""

from __future__ import annotations

import pytest

from pulsar_rebalancer.lab.conformance.case_data import only_active
from strategies.cluster.memory import NO_MEMORY, BrokerMemory, Memory
from strategies.placement.avg import ParityAvgPlacement, key_of
from strategies.placement.contract import UNKNOWN, Request, draw
from strategies.placement.least_long_term_rate import (
    LeastLongTermRateSettings,
    ParityLeastLongTermRate,
)
from strategies.placement.least_resource_usage import (
    LeastResourceUsageSettings,
    ParityExtensibleLeastResourceUsage,
    ParityLeastResourceUsage,
    smoothed,
)
from strategies.placement.round_robin import ParityRoundRobin
from tests.world.placement import best, brokers, bundle_of, candidate, placed, request

BY_RATE = ParityLeastLongTermRate(LeastLongTermRateSettings())
BY_USAGE = ParityLeastResourceUsage(LeastResourceUsageSettings())


def by_usage(difference: float) -> ParityLeastResourceUsage:
    return ParityLeastResourceUsage(LeastResourceUsageSettings(difference_percent=difference))


class TestLeastResourceUsage:
    def test_a_32_bit_float_keeps_the_second_broker_out(self) -> None:
        assert best(BY_USAGE, *brokers(b1=10, b2=30, b3=80)) == ["b1"]

    def test_one_point_less_lets_it_in(self) -> None:
        assert best(BY_USAGE, *brokers(b1=10, b2=29, b3=80)) == ["b1", "b2"]

    def test_nobody_is_well_below_the_mean_so_anybody_will_do(self) -> None:
        answer = placed(BY_USAGE, *brokers(b1=45, b2=50, b3=55))
        assert (answer.best, answer.code) == (("b1", "b2", "b3"), "nobody-below-mean")
        assert answer.chosen in answer.best

    def test_six_brokers(self) -> None:
        assert len(best(BY_USAGE, *brokers(a=40, b=40, c=40, d=40, e=69, f=70))) == 6

    def test_exactly_the_mean(self) -> None:
        assert best(by_usage(0), *brokers(b1=10, b2=60, b3=70, b4=80, b5=80)) == ["b1"]

    def test_a_quarter_below(self) -> None:
        assert best(by_usage(25), *brokers(b1=25, b2=50, b3=75, b4=50)) == ["b1"]

    def test_all_alike(self) -> None:
        assert best(by_usage(0), *brokers(b1=50, b2=50, b3=50)) == ["b1", "b2", "b3"]

    def test_the_history_moves_with_every_look_up_and_the_ranking_flips_at_the_seventh(
        self,
    ) -> None:
        memory = placed(BY_USAGE, candidate("b1", 80, 1), candidate("b2", 20, 1)).memory
        told = []
        for _ in range(7):
            memory = placed(
                BY_USAGE, candidate("b1", 20, 1), candidate("b2", 80, 1), memory=memory
            ).memory
            told.append(tuple(round(usage, 7) for usage in smoothed(memory).values()))
        assert [sorted(pair, reverse=True) for pair in told[:6]] == [
            [0.74, 0.26],
            [0.686, 0.314],
            [0.6374, 0.3626],
            [0.59366, 0.40634],
            [0.554294, 0.445706],
            [0.5188646, 0.4811354],
        ]
        assert {name: round(usage, 7) for name, usage in smoothed(memory).items()} == {
            "b1": 0.4869781,
            "b2": 0.5130219,
        }

    def test_an_idle_broker_starts_anew(self) -> None:
        memory = placed(BY_USAGE, candidate("b1", 80, 1)).memory
        assert smoothed(placed(BY_USAGE, candidate("b1", 20, 0), memory=memory).memory) == {
            "b1": pytest.approx(0.2)
        }

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
        answer = BY_USAGE.place(Request("x", UNKNOWN, {"b1": None}, ""), Memory())
        assert (answer.chosen, answer.code) == (None, "unknown-broker")


class TestLeastLongTermRate:
    def test_85_percent_is_not_overloaded(self) -> None:
        four = [
            candidate("b1", 90, 0),
            candidate("b2", 50, 600),
            candidate("b3", 50, 500),
            candidate("b4", 85, 100),
        ]
        assert best(BY_RATE, *four) == ["b4"]

    def test_a_bundle_on_its_way_counts(self) -> None:
        busy = candidate("b4", 85, 100, arriving={"t/new/0x0_0x1": bundle_of(450)})
        assert best(
            BY_RATE,
            candidate("b1", 90, 0),
            candidate("b2", 50, 600),
            candidate("b3", 50, 500),
            busy,
        ) == ["b3"]

    def test_all_overloaded_so_anybody_will_do(self) -> None:
        answer = placed(BY_RATE, *brokers(b1=86, b2=86, b3=86, b4=86))
        assert (answer.best, answer.code) == (("b1", "b2", "b3", "b4"), "all-overloaded")

    def test_nobody_is_chosen_from_nobody(self) -> None:
        answer = placed(BY_RATE)
        assert (answer.best, answer.chosen, answer.code) == ((), None, "no-candidates")

    def test_the_reason_tells_the_rate(self) -> None:
        assert (
            placed(BY_RATE, *brokers(b1=10)).text
            == "has the lowest long-term message rate, 0 msg/s"
        )


class TestExtensibleLeastResourceUsage:
    RULE = ParityExtensibleLeastResourceUsage(LeastResourceUsageSettings())

    def test_brokers_without_load_data_count_for_nothing(self) -> None:
        memory = Memory({"b1": BrokerMemory(ewma=0.1), "b2": BrokerMemory(ewma=0.5)})
        assert best(self.RULE, *brokers(b1=0, b2=0, new=0), memory=memory) == ["b1"]

    @pytest.mark.parametrize(("ewma", "chosen"), [(0.25, ["b1"]), (0.251, ["b1", "b2"])])
    def test_well_below_is_the_difference_exactly(self, ewma: float, chosen: list[str]) -> None:
        memory = Memory({"b1": BrokerMemory(ewma=ewma), "b2": BrokerMemory(ewma=1 - ewma)})
        rule = ParityExtensibleLeastResourceUsage(
            LeastResourceUsageSettings(difference_percent=25.0)
        )
        assert best(rule, *brokers(b1=0, b2=0), memory=memory) == chosen

    def test_but_are_drawn_when_nobody_is_well_below_the_mean(self) -> None:
        assert best(
            self.RULE, *brokers(b1=0, new=0), memory=Memory({"b1": BrokerMemory(ewma=0.1)})
        ) == ["b1", "new"]


class TestRoundRobin:
    def test_one_after_the_other(self) -> None:
        memory, order = Memory(), []
        for _ in range(7):
            answer = placed(ParityRoundRobin(), *brokers(a=1, b=2, c=3), memory=memory)
            memory = answer.memory
            order.append(answer.chosen)
        assert order == list("abcabca")

    def test_another_set_of_candidates_does_not_start_anew(self) -> None:
        memory = placed(ParityRoundRobin(), *brokers(a=1, b=2, c=3)).memory
        assert placed(ParityRoundRobin(), *brokers(a=1, b=2), memory=memory).chosen == "b"


class TestAvg:
    def test_all_brand_new_bundles_go_to_one_broker(self) -> None:
        eight = brokers(**{f"b{number}": 10.0 for number in range(8)})
        memory, chosen = Memory(), set()
        for number in range(20):
            answer = ParityAvgPlacement().place(
                request(*eight, bundle=f"t/ns/{number}", seed=str(number)), memory
            )
            memory = answer.memory
            chosen.add(answer.chosen)
        assert len(chosen) == 1

    def test_a_planned_broker_that_is_no_candidate_is_replaced_in_the_plan(self) -> None:
        first = placed(ParityAvgPlacement(), *brokers(a=1)).memory
        answer = placed(ParityAvgPlacement(), *brokers(b=1), memory=first)
        assert (answer.chosen, answer.code) == ("b", "drawn")
        assert answer.memory.cluster.planned == {key_of(UNKNOWN): "b"}

    def test_what_is_planned_is_not_drawn(self) -> None:
        first = placed(ParityAvgPlacement(), *brokers(a=1)).memory
        assert placed(ParityAvgPlacement(), *brokers(a=1, b=1, c=1), memory=first).code == "planned"


def test_a_draw_depends_on_the_question_and_on_nothing_else() -> None:
    assert draw(["b", "a", "c"], "x") == draw(["c", "b", "a"], "x")
    drawn = [draw(["a", "b", "c", "d"], str(seed)) for seed in range(400)]
    assert all(60 < drawn.count(name) < 140 for name in "abcd")
