"""The engine's store over Spark's state: reads once, writes only what changed."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from strategies.cluster.cluster_state import BrokerState, ClusterState, InMemoryStore, StateStore
from strategies.cluster.model import Figures
from strategies.errors import StateVersionError
from streaming.state.store import ShardStore, SparkStore, StoreCache
from tests.spark.state_variables import Spark

LARGE = 2**20
SHARD = 0
#: The first draws show most faults at once.
DRAWS = [0, 1, *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 20))]


def batch(
    spark: Spark,
    change: Callable[[SparkStore], object],
    worker: StoreCache | None = None,
    cluster: str = "c",
    shard: int = SHARD,
) -> Spark:
    """One task in one worker's process, up to the commit."""
    attempt, worker = spark.attempt(), worker or StoreCache(LARGE)
    store = worker.open(shard, attempt.rows())
    change(store.cluster(cluster))
    store.flush(attempt.rows())
    worker.keep(shard, store)
    return attempt


def broker(name: str, order: int = 0) -> BrokerState:
    return BrokerState(name, order, 1, 1, 1, 1, 1, -1, "d", "d", Figures())


def with_brokers(*names: str) -> Spark:
    def join(store: SparkStore) -> None:
        for order, name in enumerate(names):
            store.put_broker(broker(name, order))
            store.put_table(name, name.encode())
        store.put_cluster(ClusterState(round=7))

    return batch(Spark(), join)


def rounds(number: int) -> Callable[[SparkStore], None]:
    """A change to the cluster alone."""
    return lambda store: store.put_cluster(ClusterState(round=number))


def told(store: StateStore) -> object:
    brokers = {state.broker: state for state in store.brokers()}
    return brokers, {name: store.get_table(name) for name in brokers}, store.get_cluster()


def seen(spark: Spark, worker: StoreCache | None = None, cluster: str = "c") -> Any:
    shard = (worker or StoreCache(0)).open(SHARD, spark.attempt().rows())
    return told(shard.cluster(cluster))


def test_changes_are_seen_at_once_and_again_in_the_next_batch() -> None:
    changed = replace(broker("b2", 1), digest="new")

    def change(store: SparkStore) -> None:
        store.put_broker(changed)
        store.put_table("b2", b"fresh")
        store.remove_broker("b3")
        store.put_broker(broker("b4", 3))
        store.put_cluster(ClusterState(round=8))
        digests = {state.broker: state.digest for state in store.brokers()}
        assert digests == {"b1": "d", "b2": "new", "b4": "d"}
        assert store.get_broker("b2") == changed
        assert (store.get_broker("b3"), store.get_table("b3")) == (None, None)

    brokers, tables, cluster = seen(batch(with_brokers("b1", "b2", "b3"), change))
    assert brokers == {"b1": broker("b1"), "b2": changed, "b4": broker("b4", 3)}
    assert tables == {"b1": b"b1", "b2": b"fresh", "b4": None}
    assert cluster == ClusterState(round=8)


def test_a_batch_takes_few_calls_however_much_it_changes() -> None:
    names = [f"b{i}" for i in range(500)]

    def report(store: SparkStore) -> None:
        for name in names:
            store.put_broker(replace(broker(name), digest="new"))
            store.put_table(name, b"new")

    worker = StoreCache(LARGE)
    second = batch(batch(with_brokers(*names), rounds(8), worker), report, worker)
    assert second.calls("head") == ["get", "update"]
    assert second.calls("brokers") == second.calls("tables") == ["update", "remove"]


def test_a_batch_takes_few_calls_however_many_clusters_it_changes() -> None:
    def task(spark: Spark, clusters: int, worker: StoreCache) -> Spark:
        attempt = spark.attempt()
        shard = worker.open(SHARD, attempt.rows())
        for store in [shard.cluster(f"c{i}") for i in range(clusters)]:
            store.put_broker(broker("b1"))
            store.put_table("b1", b"new")
            store.put_cluster(replace(store.get_cluster(), round=store.get_cluster().round + 1))
        shard.flush(attempt.rows())
        worker.keep(SHARD, shard)
        return attempt

    worker = StoreCache(LARGE)
    second = task(task(Spark(), 300, worker), 300, worker)
    assert second.calls("head") == ["get", "update"]
    assert all(second.calls(part) == ["update", "remove"] for part in ("clusters", "tables"))
    assert seen(second, cluster="c299")[2] == ClusterState(round=2)


def test_nothing_is_written_before_the_flush_and_nothing_without_a_change() -> None:
    spark = with_brokers("b1").attempt()
    shard = StoreCache(0).open(SHARD, spark.rows())
    store = shard.cluster("c")
    store.put_broker(broker("b1"))
    store.put_cluster(store.get_cluster())
    shard.flush(spark.rows())
    assert set(spark.calls()) == {"get"}
    shard.cluster("c").put_broker(replace(broker("b1"), digest="new"))
    assert set(spark.calls()) == {"get"}


def test_a_removed_broker_takes_its_table_along_and_may_come_back() -> None:
    removed = batch(with_brokers("b1"), lambda store: store.remove_broker("b1"))
    assert seen(removed)[:2] == ({}, {})
    assert (removed.values("brokers"), removed.values("tables")) == ([], [])

    def come_back(store: SparkStore) -> None:
        store.put_broker(broker("b1", 5))
        store.put_table("b1", b"fresh")

    assert seen(batch(removed, come_back))[:2] == ({"b1": broker("b1", 5)}, {"b1": b"fresh"})


def test_in_memory_too_a_removed_broker_takes_its_table_along() -> None:
    store = InMemoryStore()
    store.put_broker(broker("b1"))
    store.put_table("b1", b"table")
    store.remove_broker("b1")
    store.remove_broker("never there")
    assert (store.get_broker("b1"), store.get_table("b1")) == (None, None)


def test_a_cluster_never_seen_starts_empty_and_clusters_are_apart() -> None:
    assert seen(Spark()) == ({}, {}, ClusterState())
    both = batch(with_brokers("b1"), lambda store: store.put_broker(broker("b9")), cluster="d")
    assert list(seen(both)[0]) == ["b1"]
    assert list(seen(both, cluster="d")[0]) == ["b9"]


def test_state_that_is_not_whole_is_refused() -> None:
    spark = with_brokers("b1")
    (name,) = next(key for key in spark.state.rows if key[0].startswith("tables/"))
    del spark.state.rows[name,]
    told = r"the state is not whole \(entry \d+ of its tables"
    with pytest.raises(StateVersionError, match=told):
        seen(spark)


def test_a_worker_does_not_read_again_what_it_has_written() -> None:
    worker = StoreCache(LARGE)
    spark = batch(with_brokers("b1", "b2"), rounds(8), worker)
    after = batch(spark, rounds(9), worker)
    assert after.calls("head") == ["get", "update"]
    assert "get" not in after.calls("clusters", "brokers", "tables")
    assert seen(after, worker) == seen(after)


def test_workers_that_take_turns_read_only_what_the_other_has_written() -> None:
    one, other = StoreCache(LARGE), StoreCache(LARGE)
    spark = batch(with_brokers(*(f"b{i}" for i in range(9))), rounds(8), one)
    spark = batch(spark, rounds(9), other)
    spark = batch(spark, lambda store: store.put_table("b1", b"fresh"), one)
    assert batch(spark, rounds(10), other).calls("tables", "brokers") == ["get"]
    assert seen(spark, other) == seen(spark)


def test_another_checkpoint_with_a_cluster_of_the_same_name_is_another_state() -> None:
    worker = StoreCache(LARGE)
    batch(with_brokers("b1", "b2"), rounds(8), worker)
    elsewhere = with_brokers("b3")
    assert seen(elsewhere, worker) == seen(elsewhere)
    batch(with_brokers("b1"), rounds(8), worker)
    assert seen(Spark(), worker) == seen(Spark())


def test_what_is_kept_has_a_limit_but_the_newest_shard_stays_however_large_it_is() -> None:
    worker, states = StoreCache(10), {shard: Spark() for shard in (0, 1)}

    def put_large(store: SparkStore) -> None:
        store.put_table("b1", bytes(11))

    def reads(shard: int) -> bool:
        """Whether a batch of this shard reads its tables from Spark."""
        states[shard] = batch(states[shard], put_large, worker, shard=shard)
        return "get" in states[shard].calls("tables")

    first, back = [False, False, False, False], [True, False, True]
    assert [reads(shard) for shard in (0, 0, 1, 1, 0, 0, 1)] == first + back, "1 replaces 0"


def test_keeping_a_shard_looks_at_no_other_shard_however_many_are_kept() -> None:
    measured: list[int] = []

    class CountedShard(ShardStore):
        def __init__(self, shard: int) -> None:
            super().__init__()
            self.shard = shard

        @property
        def size_bytes(self) -> int:
            measured.append(self.shard)
            return super().size_bytes

    worker = StoreCache(LARGE)
    for shard in range(100):
        worker.keep(shard, CountedShard(shard))
    assert measured == list(range(100))


def test_a_name_of_a_cluster_that_leaves_no_state_leaves_nothing_in_a_worker() -> None:
    """Rejected records have the names that their sender made up."""
    store, rows = ShardStore(), with_brokers("b1").attempt().rows()
    store.cluster("c").put_cluster(ClusterState(round=1))
    store.flush(rows)
    before = pickle.dumps(store)
    for number in range(50):
        store.cluster(f"made-up-{number}").get_cluster()
        store.cluster(f"made-up-{number}").remove_broker("b1")
    store.flush(rows)
    assert pickle.dumps(store) == before


@pytest.mark.heavy
@pytest.mark.parametrize("seed", DRAWS)
def test_whatever_fails_and_wherever_a_task_runs_the_state_is_that_of_an_undisturbed_run(
    seed: int,
) -> None:
    draw, spark, clusters = Random(seed), Spark(), ("c", "d", "e")
    undisturbed = {cluster: InMemoryStore() for cluster in clusters}
    workers = [StoreCache(draw.choice([0, 200, LARGE])) for _ in range(3)]
    for step in range(60):
        changes, cluster = random_changes(draw, step), draw.choice(clusters)
        while True:
            attempt = batch(spark, changes, draw.choice(workers), cluster)
            if draw.random() < 0.6:
                break
        spark = attempt
        changes(undisturbed[cluster])
        if draw.random() < 0.05:
            workers[draw.randrange(3)] = StoreCache(LARGE)
        worker = draw.choice(workers)
        for cluster, store in undisturbed.items():
            assert seen(spark, cluster=cluster) == told(store)
            assert seen(spark, deepcopy(worker), cluster) == told(store)
    assert all(list(store.brokers()) for store in undisturbed.values())


def random_changes(draw: Random, step: int) -> Callable[[StateStore], None]:
    names = [f"b{draw.randrange(12)}" for _ in range(draw.randrange(6))]
    gone = {name for name in names if draw.random() < 0.2}

    def change(store: StateStore) -> None:
        for name in names:
            if name in gone:
                store.remove_broker(name)
            else:
                store.put_broker(replace(broker(name), reported_at_ms=step))
                store.put_table(name, f"{name} at {step}".encode())
        store.put_cluster(ClusterState(round=step))

    return change
