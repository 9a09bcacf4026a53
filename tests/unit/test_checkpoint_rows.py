"""Clusters distributed over the shards of another number of partitions: nothing is lost, nothing is
added.
"""

from __future__ import annotations

import pytest

from strategies.cluster.model import Figures
from strategies.cluster.state import ClusterState
from strategies.cluster.store import BrokerState
from streaming.checkpoint_state.reader import MemoryVariable, clusters_of
from streaming.checkpoint_state.repartition import content, distributed
from streaming.state.shards import shard_keys
from streaming.state.store import Rows, ShardStore

NAMES = [f"c{number}" for number in range(100)]


def a_shard() -> MemoryVariable:
    store, variable = ShardStore(), MemoryVariable()
    for number, name in enumerate(NAMES):
        cluster = store.cluster(name)
        cluster.put_broker(BrokerState("b:1", 0, number, 1, 1, 1, 1, -1, "d", "d", Figures()))
        cluster.put_table("b:1", f"table of {name}".encode())
        cluster.put_owned("b:1", b"owned")
        cluster.put_cluster(ClusterState(round=number + 1))
    store.flush(Rows(variable))
    return variable


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_every_cluster_is_the_same_in_its_new_shard(partitions: int) -> None:
    before = clusters_of({0: a_shard()})
    shards = distributed(before, partitions)
    assert sorted(before) == sorted(NAMES)
    assert sorted(shards) == sorted(shard_keys(partitions))
    assert content(clusters_of(shards)) == content(before)


def test_what_differs_in_one_table_is_not_the_same() -> None:
    shards = distributed(clusters_of({0: a_shard()}), 2)
    changed = clusters_of(shards)
    changed["c7"].put_owned("b:1", b"other")
    assert content(changed) != content(clusters_of({0: a_shard()}))
