"""Disturbances of a modelled cluster do what a scenario says, and change nothing else."""

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.disturbances import DisturbedReports, Rival
from pulsar_rebalancer.lab.simulation.report_updates import BrokerReports
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import Disturbances
from strategies.cluster.model import LoadReport
from tests.modelled import a_scenario

_ROUNDS = 200


def _world(**disturbances: float) -> World:
    """Four equal brokers without noise, 32 equal bundles."""
    return drawn_world(a_scenario("abcd", 32, 10, disturbances=disturbances), 1)


def _rounds(**disturbances: float) -> list[tuple[list[LoadReport], frozenset[str]]]:
    """Reports that arrive and brokers that do not answer, a round a minute."""
    world = _world(**disturbances)
    reports = BrokerReports(world, "c", written=False)
    arriving = DisturbedReports(Disturbances.model_validate(disturbances), 1, world.fleet.names)
    found = []
    for minute in range(_ROUNDS):
        world.measure(60.0 * minute)
        found.append(arriving.of_round(reports.reports(60_000 * minute)))
    return found


def test_a_part_of_the_reports_is_lost_and_their_brokers_are_missing() -> None:
    rounds = _rounds(lost=0.1)
    lost = 4 * _ROUNDS - sum(len(reports) for reports, _ in rounds)
    assert lost == pytest.approx(0.1 * 4 * _ROUNDS, rel=0.3)
    assert lost == sum(len(missing) for _, missing in rounds)


def test_a_late_report_arrives_two_rounds_later_with_its_own_time() -> None:
    ages = [
        minute - report.ts // 60_000
        for minute, (reports, _) in enumerate(_rounds(late=0.1, late_rounds=2))
        for report in reports
    ]
    assert set(ages) == {0, 2}
    assert ages.count(2) == pytest.approx(0.1 * 4 * _ROUNDS, rel=0.3)


def test_one_broker_reports_by_a_wrong_clock() -> None:
    off = {
        (report.broker, report.ts - 60_000 * minute)
        for minute, (reports, _) in enumerate(_rounds(clock_s=20))
        for report in reports
    }
    assert sorted(abs(ms) for _, ms in off) == [0, 0, 0, 20_000]


@pytest.mark.heavy
def test_figures_of_bundles_are_noisy_and_those_of_brokers_are_not() -> None:
    factors = []
    for (noisy, _), (exact, _) in zip(_rounds(bundle_noise=0.3), _rounds(), strict=True):
        for one, other in zip(noisy, exact, strict=True):
            assert one.figures == other.figures
            assert one.bundles is not None
            assert other.bundles is not None
            factors.append(one.bundles.traffic / other.bundles.traffic)
    assert 0.7 <= np.min(factors) < 0.72
    assert 1.28 < np.max(factors) <= 1.3
    assert np.mean(factors) == pytest.approx(1, abs=0.01)


def test_a_bundle_costs_more_or_less_than_its_traffic_shows_wherever_it_is() -> None:
    plain, world = _world(), _world(bundle_cost=0.35)
    assert 0.65 <= world.costs.min() < 0.8
    assert 1.2 < world.costs.max() <= 1.35
    for one in (plain, world):
        one.measure(60.0)
    assert world.totals.tolist() == plain.totals.tolist()
    # A bundle of 1 MiB/s in and out needs 2 % of the machine.
    for broker in range(4):
        expected = 10 + 2 * world.costs[world.rows_of(broker)].sum()
        assert world.cpu[broker] == pytest.approx(expected)
        assert 100 * world.lasting(60.0)[0][broker] == pytest.approx(expected)


def test_a_bundle_and_the_part_split_from_it_cost_the_same() -> None:
    world = _world(bundle_cost=0.35)
    world.measure(60.0)
    before = world.lasting(60.0)[0]
    world.split(3, 0x1C000000)
    assert np.allclose(world.lasting(60.0)[0], before)


def test_a_rival_moves_five_bundles_an_hour_without_commands() -> None:
    world, rival = _world(), Rival(5, 1)
    before = world.ownership.owner.copy()
    moves = [move for minute in range(60) for move in rival.moves(world, 60.0 * minute)]
    assert [move.kind for move in moves] == ["foreign"] * 5
    for move in moves:
        assert move.source != move.destination
    assert 0 < np.count_nonzero(world.ownership.owner != before) <= 5
