"""SteadyShedder does not act on a jump of usage that traffic does not explain, however the jump
falls into the brokers' report periods.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from strategies.cluster.memory import NO_MEMORY, Memory
from strategies.cluster.model import ClusterView
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.load_history import LoadHistory
from strategies.shedding.steady.samples import recorded
from strategies.shedding.steady.settings import SteadySettings
from tests.world.brokers import WEIGHTS, broker, bundles, view

_MINUTE_MS = 60_000


def _usages(*percent: float) -> list[float]:
    """The usages that samples show after reports of these usages, all with the same traffic."""
    history: LoadHistory | None = None
    for minute, cpu in enumerate(percent):
        load = replace(broker("b1", cpu, 40.0), reported_at_ms=minute * _MINUTE_MS)
        history = recorded(load, cpu / 100, history, minute * _MINUTE_MS, _MINUTE_MS)
    assert history is not None
    return [round(100 * one.usage) for one in history.samples]


def _minute(minute: int, *cpu: float) -> ClusterView:
    """Brokers b1, b2, … with these usages and equal traffic of ten bundles."""
    brokers = [
        replace(
            broker(f"b{at}", usage, 40.0, bundles(*[4.0] * 10, first=10 * at)),
            reported_at_ms=minute * _MINUTE_MS,
        )
        for at, usage in enumerate(cpu)
    ]
    return replace(view(*brokers), now_ms=minute * _MINUTE_MS)


def _played(*minutes: tuple[float, ...]) -> list[Shedding]:
    """One round a minute; each tuple holds the usages of all brokers in that minute."""
    rule, memory, played = SteadyShedder(SteadySettings(), WEIGHTS), Memory({}), []
    for at, cpu in enumerate(minutes):
        played.append(rule.shed(_minute(at, *cpu), memory))
        memory = played[-1].memory
    assert memory.brokers.get("b0:1", NO_MEMORY).history is not None
    return played


def test_the_end_of_a_spike_is_believed_at_once() -> None:
    assert _usages(50, 50, 50, 67, 89, 50) == [50, 50, 50, 50, 89, 50]


def test_a_first_sample_that_is_a_spike_is_not_repeated() -> None:
    assert _usages(89, 50, 50) == [89, 50, 50]


def test_a_step_without_traffic_is_believed_the_second_time() -> None:
    assert _usages(50, 50, 50, 75, 75, 75) == [50, 50, 50, 50, 75, 75]


@pytest.mark.parametrize("spike", [(67.0, 89.0), (95.0, 60.0), (80.0, 95.0, 70.0)])
def test_a_pause_that_falls_into_several_reports_moves_nothing(spike: tuple[float, ...]) -> None:
    calm, pause = [(50.0, 50.0, 50.0)] * 5, [(50.0, usage, 50.0) for usage in spike]

    assert not any(shedding.decisions for shedding in _played(*calm, *pause, *calm))


def test_a_broker_whose_newest_figures_are_doubted_sheds_nothing() -> None:
    rounds = _played(*[(50.0, 50.0)] * 9, (75.0, 50.0), (80.0, 50.0), (95.0, 50.0))

    assert not rounds[-1].decisions


def test_a_gap_that_traffic_explains_only_in_part_counts() -> None:
    rule, memory, moved = SteadyShedder(SteadySettings(), WEIGHTS), Memory({}), list[int]()
    for minute in range(4):
        busy = broker("b0", 66.0, 52.0, bundles(*[5.2] * 10))
        idle = broker("b1", 44.0, 40.0, bundles(*[4.0] * 10, first=10))
        now_ms = minute * _MINUTE_MS
        seen = view(replace(busy, reported_at_ms=now_ms), replace(idle, reported_at_ms=now_ms))
        shedding = rule.shed(replace(seen, now_ms=now_ms), memory)
        memory = shedding.memory
        moved.append(len(shedding.decisions))

    assert moved[:2] == [0, 0]
    assert moved[2] > 0
