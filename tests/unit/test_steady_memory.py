"""What SteadyShedder remembers, and how moves that did not help are counted and forgotten."""

import msgspec

from strategies.cluster.cluster_state import ClusterState
from strategies.cluster.strategy_memory import NO_EPISODE, BrokerMemory, ClusterMemory, Memory
from strategies.shedding.steady.effect_and_rest_of_last_plan import (
    hold,
    judged_moves,
    remembered,
    returns,
)
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadHistory,
    LoadSample,
    RecentMove,
    histories_of,
    moves_of,
)
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.world.steady import history_of

HISTORY = history_of([LoadSample(1, 0.5, 2.0, 3.0)], changed_at_ms=4, bundles=5)
MOVE = RecentMove("b", "a:1", "b:1", 1, 2.0, 3.0, 0.25, 0.5)


def stored(memory: BrokerMemory) -> BrokerMemory:
    """As a broker's memory comes back from a row."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(memory), type=BrokerMemory)


def test_a_cluster_without_an_episode_has_the_bytes_of_one_that_has_not_begun() -> None:
    assert msgspec.msgpack.encode(NO_EPISODE) == msgspec.msgpack.encode(Episode())
    assert "memory" not in to_bytes(ClusterState(memory=ClusterMemory(episode=Episode())))


def test_a_history_comes_back_from_its_row_as_it_was() -> None:
    kept = stored(BrokerMemory(history=HISTORY))

    assert kept == BrokerMemory(history=HISTORY)
    assert histories_of(Memory({"a:1": kept, "b:1": BrokerMemory()}), ["a:1", "b:1", "c:1"]) == {
        "a:1": HISTORY
    }
    assert histories_of(Memory({"a:1": kept}), ["a:1"])["a:1"].samples == HISTORY.samples


def test_rows_of_older_versions_with_fewer_values_are_read() -> None:
    old = stored(BrokerMemory(history=HISTORY[:5]))
    cluster = from_bytes(
        to_bytes(ClusterState(memory=ClusterMemory(moves=(MOVE[:9],), episode=Episode(1, 2)[:10])))
    ).memory

    assert histories_of(Memory({"a:1": old}), ["a:1"]) == {"a:1": HISTORY}
    assert moves_of(cluster) == [MOVE]
    assert Episode(*cluster.episode) == Episode(1, 2)


def test_moves_that_a_limit_held_back_are_marked_unless_samples_include_them() -> None:
    moves = (MOVE, MOVE._replace(bundle="c", counted=True), MOVE._replace(bundle="d"))
    cluster = from_bytes(to_bytes(ClusterState(memory=ClusterMemory(moves=moves)))).memory

    held = hold(Memory({}, cluster), {"b", "c"})
    assert [one.bundle for one in moves_of(held.cluster) if one.held] == ["b"]
    assert len(held.cluster.moves) == 3


MINUTE_MS = 60_000


def history(*usages: float, changed_at: int = 0) -> LoadHistory:
    """One sample a minute with the same traffic, the last ones after minute 0."""
    first = 1 - len(usages) // 2
    samples = (
        LoadSample(MINUTE_MS * at, usage, 1e6, 1e3) for at, usage in enumerate(usages, first)
    )
    return history_of(samples, changed_at_ms=MINUTE_MS * changed_at)


def move(bundle: str, source: str, destination: str, at: int = 0) -> RecentMove:
    return RecentMove(bundle, source, destination, MINUTE_MS * at, 1e5, 1e2, 0.1, 0.1, True, True)


#: Two moves that should have cut a spread of 40 points to 10.
ASKED = Episode(0, 0, spread_before=0.4, spread_predicted=0.1, judged=False)
MOVES = (move("x", "a", "b"), move("y", "a", "b"))
UNEVEN = {"a": history(0.7, 0.7, 0.7, 0.7), "b": history(0.3, 0.3, 0.3, 0.3)}


def test_moves_that_brought_nothing_add_up_until_some_help() -> None:
    even = {"a": history(0.6, 0.6, 0.5, 0.5), "b": history(0.3, 0.3, 0.4, 0.4)}

    once = judged_moves(ASKED, UNEVEN, MOVES, 3 * MINUTE_MS)
    twice = judged_moves(once._replace(judged=False), UNEVEN, MOVES, 3 * MINUTE_MS)
    helped = judged_moves(twice._replace(judged=False), even, MOVES, 3 * MINUTE_MS)

    idle = [(one.idle_rounds, one.idle_moves) for one in (once, twice, helped)]
    assert idle == [(1, 2), (2, 4), (0, 0)]


def test_moves_are_not_judged_once_traffic_is_another() -> None:
    """The gap remains because the traffic of a broker doubled, not because moves bring nothing."""
    busier = history(0.5, 0.5, 0.7, 0.7)
    doubled = (one._replace(throughput=2e6, msg_rate=2e3) for one in busier.samples[2:])
    grown = history_of((*busier.samples[:2], *doubled), changed_at_ms=busier.changed_at_ms)
    histories = {"a": history(0.3, 0.3, 0.3, 0.3), "b": history(0.4, 0.4, 0.4, 0.4), "c": grown}

    same = judged_moves(ASKED, {**histories, "c": busier}, MOVES, 3 * MINUTE_MS)
    other = judged_moves(ASKED, histories, MOVES, 3 * MINUTE_MS)

    assert [(one.judged, one.idle_rounds) for one in (same, other)] == [(True, 1), (True, 0)]


HOUR_MS = 60 * MINUTE_MS


def test_what_moves_brought_is_forgotten_eight_hours_later_whatever_was_not_judged_since() -> None:
    before = ASKED._replace(
        caution=2.0, idle_rounds=3, idle_moves=5, error=0.05, planned=2, judged_at_ms=0
    )
    calm = UNEVEN["b"].samples
    louder = [one._replace(throughput=2e6) for one in calm[2:]]
    grown = history_of((*calm[:2], *louder), changed_at_ms=0)
    small = move("x", "a", "b")._replace(source_loses=0.0, destination_gains=0.0)
    now_ms = 7 * HOUR_MS

    not_judged = [
        judged_moves(before, {**UNEVEN, "b": grown}, MOVES, now_ms),
        judged_moves(before, UNEVEN, MOVES, now_ms, foreign_ms=MINUTE_MS),
        judged_moves(before, UNEVEN, (small,), now_ms),
    ]
    judged = judged_moves(before, UNEVEN, MOVES, now_ms)

    for episode in not_judged:
        assert episode == before._replace(judged=True)
        assert remembered(episode, 8 * HOUR_MS) == episode
        forgotten = remembered(episode, 9 * HOUR_MS)
        assert (forgotten.caution, forgotten.idle_rounds, forgotten.error) == (1.0, 0, None)
    assert remembered(judged, 9 * HOUR_MS) == judged


def test_moves_of_earlier_rounds_are_not_counted_again() -> None:
    earlier = move("z", "b", "a", at=-5)
    assert judged_moves(ASKED, UNEVEN, (earlier, *MOVES), 3 * MINUTE_MS).idle_moves == 2


def test_a_bundle_returns_to_any_broker_that_it_left() -> None:
    there, on, back = move("x", "a", "b"), move("x", "b", "c"), move("x", "c", "a")
    assert returns((there, on, move("y", "b", "a"))) == 0
    assert returns((there, on, back)) == 1
    assert returns((there, move("x", "b", "a"), there)) == 2


def test_a_plan_that_was_carried_out_in_part_is_judged_by_what_this_part_was_to_bring() -> None:
    """Of a plan from 40 to 10 points, one move of 4 points was carried out: 2 points are no more
    than a tenth of the plan, and half of the move. The second broker remains as full as before.
    """
    two, usual = ASKED._replace(planned=2), history(0.3, 0.3, 0.3, 0.3)
    small = move("x", "a", "b")._replace(source_loses=0.04, destination_gains=0.0)
    before = {"a": history(0.66, 0.66, 0.68, 0.68), "b": usual}
    useless = {"a": history(0.66, 0.66, 0.7, 0.7), "b": usual}

    def judged(histories: dict[str, LoadHistory]) -> int:
        return judged_moves(two, histories, (small,), 3 * MINUTE_MS).idle_rounds

    assert [judged(before), judged(useless)] == [0, 1]
    assert judged({**useless, "c": history(0.7, 0.7, 0.7, 0.7)}) == 0
