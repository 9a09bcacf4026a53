"""What a modelled cluster shows of a move, of a dead broker, of consumers that pause, of a split;
stories on one small scenario.
"""

from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from tests.modelled import a_scenario


def _world(seed: int = 1, **changes: Any) -> World:
    """Two equal brokers without noise, four equal bundles, two on each; 1 MiB/s and 1024 messages/s
    in per bundle.
    """
    return drawn_world(a_scenario(**changes), seed)


def test_usage_is_what_traffic_costs_on_the_machine() -> None:
    world = _world()
    world.measure(60)
    # 2 MiB/s in and 2 out at 25 percent of a core each, of ten cores, over the idle 10 %.
    assert world.cpu.tolist() == pytest.approx([20, 20])
    assert world.totals[0].tolist() == pytest.approx([2048, 2048])


def test_a_moved_bundle_shows_in_part_at_first_and_whole_a_period_later() -> None:
    world = _world()
    world.lag_s = np.zeros(2)
    row = int(world.rows_of(0)[0])
    world.move(row, 1, down_s=70, up_s=90)
    world.measure(120)
    # The clients were away for 20 s, on the old broker for 10, on the new one for 30.
    assert world.cpu.tolist() == pytest.approx([15 + 5 * 10 / 60, 20 + 5 * 30 / 60])
    assert world.listed[row] == 1
    assert world.sampled[0, row] == pytest.approx(512)
    world.measure(180)
    assert world.cpu.tolist() == pytest.approx([15, 25])


def test_a_broker_that_measured_before_the_move_still_lists_the_bundle() -> None:
    world = _world()
    world.lag_s = np.array([55.0, 55.0])
    row = int(world.rows_of(0)[0])
    world.move(row, 1, down_s=121, up_s=122)
    world.measure(175)
    assert world.listed[row] == 0
    world.measure(235)
    assert world.listed[row] == 1


def test_what_consumers_did_not_read_is_read_when_they_come_back() -> None:
    pausing = {
        "name": "all",
        "mib_in": 4,
        "even": True,
        "consumers": {"kind": "on-off", "on_s": 60, "off_s": 60, "phase_s": 0},
    }
    world = _world(traffic=[pausing])
    world.lag_s = np.zeros(2)
    out = []
    for minute in range(1, 6):
        world.measure(60.0 * minute)
        out.append(float(world.totals[1].sum()) / 4096)
    assert out == pytest.approx([1, 0, 2, 0, 2])
    assert world.backlog.sum() == pytest.approx(0)


def test_a_split_changes_who_carries_nothing_but_what_can_be_moved() -> None:
    world = _world()
    world.measure(60)
    before = world.cpu.tolist()
    low, high = world.split(0, 0x20000000)
    assert (low, high) == (
        "public/simulated/0x00000000_0x20000000",
        "public/simulated/0x20000000_0x40000000",
    )
    world.measure(120)
    assert world.cpu.tolist() == pytest.approx(before)
    assert world.sampled[0, [0, 4]].tolist() == pytest.approx([512, 512])
    with pytest.raises(KeyError):
        world.split(0, 0x30000000)


def test_another_seed_is_another_cluster_and_the_same_seed_is_the_same_to_the_bit() -> None:
    def after(seed: int) -> bytes:
        world = _noisy(seed, 5, spikes_a_day=20, spike_points=20)
        return world.cpu.tobytes() + world.sampled.tobytes()

    assert after(1) == after(1)
    assert after(1) != after(2)


def test_the_figures_of_a_seed_are_these_on_every_machine() -> None:
    """Written down once: a machine that computes others has another arithmetic."""
    figures = [figure.hex() for figure in _noisy(7, 3).cpu.tolist()]
    assert figures == ["0x1.39206ddfe501cp+4", "0x1.4ffa18711a18ap+4"]


def _noisy(seed: int, minutes: int, **spikes: float) -> World:
    noise = {"traffic": 0.02, "wander": 0.05, "cpu_points": 2, "cpu_bias": 0.05, **spikes}
    world = _world(seed, noise=noise, traffic=[{"name": "all", "mib_in": 4, "partitions": 40}])
    for minute in range(minutes):
        world.measure(60.0 * minute)
    return world
