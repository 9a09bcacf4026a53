"""What a move is expected to cost, from what others have cost."""

import random

from strategies.cluster.cluster_state import ClusterState
from strategies.cluster.move_cost import MeasuredPause, MoveCost, expected_pause_ms
from strategies.fold.engine import EngineSettings
from strategies.fold.outcomes import add_pause
from strategies.settings import DrainSettings
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.unit.test_drains import cluster, draining


def after(*moves: tuple[int, int, int]) -> tuple[MeasuredPause, ...]:
    """Time, topics and pause of moves."""
    pauses: tuple[MeasuredPause, ...] = ()
    for ts, topics, pause_ms in moves:
        pauses = add_pause(pauses, ts, f"id-{ts}", MoveCost(5, pause_ms, topics))
    return pauses


def test_bundles_with_about_as_many_topics_count() -> None:
    pauses = after((1, 3, 100), (2, 9, 300), (3, 50, 2_000))
    assert expected_pause_ms(pauses, 5) == 200
    assert expected_pause_ms(pauses, 10) == 2_000


def test_without_such_a_bundle_all_count_and_without_any_a_second_is_expected() -> None:
    assert expected_pause_ms(after((1, 3, 100), (3, 50, 2_000)), 5_000) == 1_050
    assert expected_pause_ms((), 3) == 1_000


def test_without_a_message_the_time_without_owner_counts_and_without_both_nothing() -> None:
    assert add_pause((), 1, "id", MoveCost(40, None, 3)) == (MeasuredPause(1, "id", 3, 40),)
    assert add_pause((), 1, "id", MoveCost(None, None, 3)) == ()
    assert add_pause((), 1, "id", MoveCost(40, 50, None)) == ()


def test_neither_order_nor_repetition_matters_and_the_newest_are_kept() -> None:
    moves = [(ts, ts % 7, 10 * ts) for ts in range(1, 101)]
    expected = after(*moves)
    shuffled = [*moves, *moves[:30]]
    random.Random(4).shuffle(shuffled)
    assert after(*shuffled) == expected
    assert [one.ts for one in expected] == list(range(37, 101))


def test_they_survive_in_the_bytes_of_a_state() -> None:
    measured = ClusterState(pauses=after((1, 3, 100), (2, 9, 300)))
    assert from_bytes(to_bytes(measured)) == measured


def test_the_pace_of_drains_by_pauses_expects_what_moves_have_cost() -> None:
    """A second before any was measured; and one bundle even if it is expected to take longer."""
    for limit, first, later in ((2_500, 2, 5), (300, 1, 1)):
        paced = DrainSettings(bundles_at_a_time=100, pause_ms_per_round=limit)
        made = draining(cluster(EngineSettings(drains=paced), bundles=20))
        made.cost = MoveCost(20, 500, 4, 1, "modular")
        done = made.passes()
        assert len(made.commands) == first
        assert any(
            f"to spare its clients (drains.pause_ms_per_round = {limit})" in skip.text
            for skip in done.skips
        )
        made.passes()
        assert len(made.commands) == first + later
