"""SteadyShedder follows up on a gap that begins when something else moves bundles."""

from __future__ import annotations

from dataclasses import replace

from strategies.cluster.memory import Memory
from strategies.cluster.model import ClusterView
from strategies.shedding.contract import Shedding
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.gaps import LoadGap, widest_gap
from strategies.shedding.steady.load_history import Episode, LoadHistory, LoadSample
from strategies.shedding.steady.settings import PROFILES, SteadySettings
from tests.world.brokers import WEIGHTS, broker, bundles, view

_MINUTE_MS = 60_000


def _minute(minute: int, *served: int) -> ClusterView:
    """Brokers with these numbers of equal bundles, of 5 points of usage and 4 MiB/s each."""
    brokers = [
        replace(
            broker(f"b{at}", 10 + 5.0 * count, 4.0 * count, bundles(*[4.0] * count, first=20 * at)),
            reported_at_ms=minute * _MINUTE_MS,
        )
        for at, count in enumerate(served)
    ]
    return replace(view(*brokers), now_ms=minute * _MINUTE_MS)


def _played(*minutes: tuple[int, ...]) -> list[Shedding]:
    rule, memory, played = SteadyShedder(SteadySettings(), WEIGHTS), Memory({}), []
    for at, served in enumerate(minutes):
        played.append(rule.shed(_minute(at, *served), memory))
        memory = played[-1].memory
    return played


def test_a_gap_of_ten_points_alone_moves_nothing() -> None:
    played = _played(*[(11, 10, 9)] * 15)
    assert not any(shedding.decisions for shedding in played)


def test_a_gap_of_ten_points_after_a_foreign_move_is_followed_up() -> None:
    played = _played(*[(10, 10, 10)] * 5, *[(11, 10, 9)] * 10)
    moves = [one for shedding in played for one in shedding.decisions]
    assert [(one.code, one.source, one.destination) for one in moves] == [
        ("follow-up", "b0:1", "b2:1")
    ]


def test_after_foreign_moves_a_gap_of_seven_points_is_enough_and_after_its_own_eight() -> None:
    by_itself = Episode(began_at_ms=0, last_at_ms=0)
    foreign = Episode(began_at_ms=_MINUTE_MS, last_at_ms=0)
    assert _follow_up(7.0, by_itself) is None
    assert _follow_up(8.1, by_itself) is not None
    assert _follow_up(6.3, foreign) is None
    assert _follow_up(7.0, foreign) is not None


def _follow_up(points: float, episode: Episode) -> LoadGap | None:
    """The gap that counts between brokers of 30 and 30 + `points`."""
    histories = {
        name: LoadHistory.of(
            LoadSample(minute * _MINUTE_MS, usage / 100, 1e6, 1e3) for minute in (1, 2, 3)
        )
        for name, usage in (("b0:1", 30.0 + points), ("b1:1", 30.0))
    }
    gap, _ = widest_gap(
        histories, lambda _, one: one.usage, PROFILES["default"], episode, 3 * _MINUTE_MS
    )
    return gap
