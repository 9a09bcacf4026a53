"""What SteadyShedder remembers is opaque to the engine and to states: they keep its values, and
only the strategy reads them, also those of older versions.
"""

from __future__ import annotations

import msgspec

from strategies.cluster.memory import NO_EPISODE, BrokerMemory, ClusterMemory, Memory
from strategies.cluster.state import ClusterState
from strategies.shedding.steady.last_plan import hold
from strategies.shedding.steady.load_history import (
    Episode,
    LoadSample,
    RecentMove,
    histories_of,
    moves_of,
)
from streaming.state.rows import from_bytes, to_bytes
from tests.unit.steady_builders import history_of

HISTORY = history_of([LoadSample(1, 0.5, 2.0, 3.0)], changed_at_ms=4, bundles=5)
MOVE = RecentMove("b", "a:1", "b:1", 1, 2.0, 3.0, 0.25, 0.5)


def stored(memory: BrokerMemory) -> BrokerMemory:
    """As a broker's memory comes back from a row."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(memory), type=BrokerMemory)


def test_a_cluster_without_an_episode_has_the_bytes_of_one_that_has_not_begun() -> None:
    encode = msgspec.msgpack.encode

    assert encode(NO_EPISODE) == encode(Episode())
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
