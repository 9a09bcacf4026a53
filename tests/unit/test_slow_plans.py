"""Small limits slow SteadyShedder's plans down, and change nothing else."""

from functools import cache
from itertools import islice

import pytest
from numpy import zeros

from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    PolledCluster,
    RoundAnswer,
    closed_loop,
)
from strategies.cluster.model import MIB
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings
from strategies.shedding.steady.effect_and_rest_of_last_plan import without_swaps
from strategies.shedding.steady.memory_format import Episode, RecentMove
from strategies.shedding.steady.planned_cluster import MovePlan, PlannedMove

pytestmark = pytest.mark.heavy
#: Usages at the start, number of bundles, seed.
_Cluster = tuple[tuple[float, ...], int, int]
CLUSTERS: list[_Cluster] = [
    ((0.83, 0.38, 0.38, 0.38), 64, 1),
    ((0.9, 0.75, 0.2, 0.25, 0.3), 96, 2),
    ((0.83, 0.38, 0.38, 0.38), 16, 3),
    ((0.8, 0.7, 0.65, 0.3, 0.3, 0.35), 200, 4),
]
#: Points by which the ends may differ: what a plan does not care about.
TOLERANCE = 3.0
ROUNDS = 40


@cache
def life(cluster: _Cluster, limits: LimitSettings = LimitSettings()) -> list[RoundAnswer]:
    """The rounds of a cluster whose commands are all carried out."""
    usage, bundles, seed = cluster
    world = skewed_cluster("prod", seed, bundles, usage).world
    decider = EngineDecider(EngineSettings(limits=limits))
    return list(islice(closed_loop(PolledCluster(world, "prod", 0), decider), ROUNDS))


def end(steps: list[RoundAnswer]) -> float:
    """Mean spread of the last ten rounds, in points."""
    return 10 * sum(one.round.spread.range for one in steps[-10:])


def acting(steps: list[RoundAnswer]) -> list[int]:
    return [at for at, one in enumerate(steps) if one.commands]


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_plan_ends_where_it_would_without_a_limit_per_round(
    cluster: _Cluster, limit: int
) -> None:
    free, slow = life(cluster), life(cluster, LimitSettings(moves_per_round=limit))
    assert max(len(one.commands) for one in slow) <= limit
    assert end(slow) <= end(free) + TOLERANCE
    moves = sum(len(one.commands) for one in free)
    assert abs(sum(len(one.commands) for one in slow) - moves) <= 1
    first, last = acting(slow)[0], acting(slow)[-1]
    said = {one.round.state.code for one in slow[first:last] if one.round.state is not None}
    assert said <= {"acting"}


@pytest.mark.parametrize("cluster", CLUSTERS[:2], ids=str)
def test_each_round_of_a_slow_plan_is_used(cluster: _Cluster) -> None:
    slow = life(cluster, LimitSettings(moves_per_round=1))
    rounds = acting(slow)
    assert len(rounds) >= 3
    assert rounds == list(range(rounds[0], rounds[0] + len(rounds)))
    codes = [one.commands[0].code for one in slow if one.commands]
    assert codes[1:] == ["rest-of-plan"] * (len(rounds) - 1)


def test_a_limit_of_bytes_per_round_slows_a_plan_down_too() -> None:
    free = life(CLUSTERS[0])
    plan = free[acting(free)[0]].round.certificate
    assert plan is not None
    slow = life(CLUSTERS[0], LimitSettings(moved_mib_per_round=0.6 * plan.moved / MIB))
    assert len(acting(slow)) > len(acting(free))
    assert end(slow) <= end(free) + TOLERANCE


def test_while_the_limit_of_the_hour_is_spent_rounds_say_so() -> None:
    slow = life(CLUSTERS[1], LimitSettings(moves_per_hour=2))
    last = acting(slow)[-1]
    states = [one.round.state for one in slow[last + 1 :]]
    assert states
    assert {one.code for one in states if one is not None} == {"not-allowed"}
    assert all("limits.moves_per_hour = 2" in one.text for one in states if one is not None)


def test_the_halves_of_a_swap_follow_each_other_where_a_round_has_no_room_for_both() -> None:
    halves = (PlannedMove("a", 0, 1, 5.0, 0.0, 1), PlannedMove("b", 1, 0, 2.0, 0.0, 1))
    swap = MovePlan(halves, zeros(2), zeros(2))
    episode = Episode(last_at_ms=60_000, planned_at_ms=0)
    held = [RecentMove("a", "x:1", "y:1", 60_000, 1.0, 1.0, 0.1, 0.1, held=True, exchange=1)]
    made = RecentMove("c", "x:1", "y:1", 0, 1.0, 1.0, 0.1, 0.1, counted=True)
    apart = without_swaps(swap, held, episode, [made])
    assert [one.exchange for one in apart.moves] == [0, 0]
    assert without_swaps(swap, held, episode, [made._replace(at_ms=60_000)]) is swap
    assert without_swaps(swap, [], episode, [made]) is swap
