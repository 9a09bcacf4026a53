"""Which shard a cluster belongs to, and which partition Spark gives a shard."""

from __future__ import annotations

from collections import Counter

import pytest

from streaming.state.shards import shard_keys, shard_of, spark_hash


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 1_000])
def test_every_partition_gets_exactly_one_shard(partitions: int) -> None:
    keys = shard_keys(partitions)
    assert [spark_hash(key) % partitions for key in keys] == list(range(partitions))


def test_with_one_partition_all_clusters_are_one_shard() -> None:
    assert {shard_of(f"c{i}", 1) for i in range(100)} == {0}


def test_clusters_spread_evenly_over_the_shards() -> None:
    found = Counter(shard_of(f"pulsar-{i:03}", 4) for i in range(1_000))
    assert sorted(found) == sorted(shard_keys(4))
    assert min(found.values()) > 200


def test_the_shard_of_a_cluster_is_part_of_the_format_of_a_checkpoint() -> None:
    assert [shard_of(name, 7) for name in ("c", "d", "ü", "")] == [0, 12, 9, 12]
