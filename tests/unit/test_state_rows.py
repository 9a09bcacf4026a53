"""Brokers and clusters in Spark's state: how they are packed, and what is printed of them."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from pulsar_rebalancer.cli.commands.state import forgotten_line
from strategies.bundles import TableSummary
from strategies.cluster.cluster_state import BrokerState, Clock, ClusterState, note_name
from strategies.cluster.model import Figures, Resource, Traffic
from strategies.cluster.strategy_memory import BrokerMemory
from strategies.errors import StateVersionError
from strategies.fold.engine import EngineSettings
from strategies.fold.time_jumps_and_forgetting import remains
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.remembered_and_changed_settings import STATE_FORMAT, guard_of
from streaming.checkpoint_state.reader import (
    BrokerStateRow,
    CheckpointState,
    ForgottenRow,
    MemoryVariable,
    clusters_of,
    read_state,
    state_of,
)
from streaming.checkpoint_state.repartition import checked, content, distributed
from streaming.settings import JobSettings
from streaming.state.compacted_log import LogEntry
from streaming.state.shards import shard_keys
from streaming.state.state_to_bytes import (
    pack,
    row_name,
    unpack_brokers,
    unpack_bytes,
)
from streaming.state.store import Rows, ShardStore, SparkStore


def a_broker(memory: BrokerMemory) -> BrokerState:
    resources = [Resource(1.5 * i, 100.0 + i) for i in range(5)]
    figures = Figures(*resources, Traffic(1.0, 2.0, 3.0, 4.0), 64, 0.5, 7.0, 13)  # type: ignore[arg-type, call-arg]
    table = TableSummary(1.5, 2.5, 3, 4, 5, 6.5, 7.5)
    return BrokerState(
        "b:1", 3, 10, 2, 11, 12, 3, 14, "digest", "of bundles", figures, memory, table
    )


def test_brokers_come_back_as_they_were_and_those_that_are_gone_stand_beside() -> None:
    bare = replace(a_broker(BrokerMemory()), figures=Figures())
    entry: LogEntry[BrokerState] = {
        "c": {"b:1": a_broker(BrokerMemory()), "b:3": None},
        "d": {"b:1": a_broker(BrokerMemory(0.1, 0.5, 3, 0, 1e6, 12))},
        "a/b": {"b:4": bare},
    }
    removed: LogEntry[BrokerState] = {"c": {"b:3": None}}
    for some in ({}, removed, entry):
        assert unpack_brokers(pack(some)) == some


def test_values_stand_under_their_names_so_that_any_reader_of_messagepack_finds_them() -> None:
    read = msgspec.msgpack.decode(pack({"c": {"b:1": a_broker(BrokerMemory(ewma=0.25))}}))
    broker = read["c"]["b:1"]
    assert (broker["memory"]["ewma"], broker["figures"]["traffic"]["msg_rate_in"]) == (0.25, 1.0)


def test_numbers_that_lost_their_point_are_kept_as_doubles() -> None:
    """A usage of 5 must read 5.0 after a restart too, or the bytes of a round would differ."""
    broker = BrokerState("b:1", 0, 1, 1, 1, 1, 1, 1, "", "", Figures(cpu=Resource(5, 100)))
    assert str(unpack_brokers(pack({"c": {"b:1": broker}}))["c"]["b:1"]) == str(
        replace(broker, figures=Figures(cpu=Resource(5.0, 100.0)))
    )


def test_a_large_row_is_compressed_and_comes_back_as_a_plain_one_does() -> None:
    text = b"tenant/namespace/0x00000000_0x00100000" * 30_000
    tables = {"c": {"b:1": text}}
    assert len(pack(tables)) < 2**18
    assert unpack_bytes(pack(tables)) == tables
    assert unpack_bytes(msgspec.msgpack.encode(tables)) == tables


def test_the_names_of_rows_are_part_of_the_format_of_a_checkpoint() -> None:
    assert (row_name("head"), row_name("tables", 7)) == ("head/0", "tables/7")


STATE = ClusterState(round=7)


def a_row(name: str, order: int) -> BrokerState:
    return BrokerState(name, order, 700, 1, 900, 650, 1, 1, "d", "d", Figures())


def read(state: ClusterState, *brokers: BrokerState) -> list[BrokerStateRow]:
    return state_of({"c": a_cluster(state, *brokers)}).brokers


def a_cluster(state: ClusterState, *brokers: BrokerState) -> SparkStore:
    return SparkStore(state, {broker.broker: broker for broker in brokers}, {})


def test_brokers_come_in_the_order_in_which_they_appeared() -> None:
    rows = read(STATE, a_row("b1", 2), a_row("b2", 3), a_row("b3", 1))
    assert [row.broker for row in rows] == ["b3", "b1", "b2"]
    assert {(row.cluster, row.round, row.sampled_at_ms) for row in rows} == {("c", 7, 650)}


def test_clusters_come_by_name() -> None:
    clusters = {name: a_cluster(STATE, a_row("b", 0)) for name in "ecd"}
    assert [row.cluster for row in state_of(clusters).brokers] == ["c", "d", "e"]


def test_clusters_of_which_only_the_last_round_is_left_stand_beside() -> None:
    state = ClusterState(clock=Clock(1_000), early=None, round=7, round_at_ms=900)
    clusters = {name: a_cluster(remains(state)) for name in "dc"}
    assert state_of(clusters) == CheckpointState(
        [], [ForgottenRow("c", 7, 1_000), ForgottenRow("d", 7, 1_000)]
    )
    assert state_of({"c": a_cluster(state)}) == CheckpointState([], [])
    assert forgotten_line(ForgottenRow("c", 7, 1_000)) == (
        "cluster c, round 7: forgotten, its newest record is of 1970-01-01 00:00:01+00:00 "
        "(round.forget_cluster_after_days)"
    )


def test_the_age_of_a_broker_is_that_of_its_newest_figures_by_the_time_of_its_cluster() -> None:
    (row,) = read(ClusterState(clock=Clock(1_000)), a_row("b1", 0))
    assert (row.reported_at_ms, row.age_ms) == (900, 100)
    (row,) = read(ClusterState(), a_row("b1", 0))
    assert row.age_ms is None


def test_every_figure_has_its_own_column() -> None:
    figures = Figures(traffic=Traffic(1.0, 2.0, 30.0, 40.0), bundle_count=5)
    memory = BrokerMemory(
        ewma=0.1, placement_ewma=0.2, hit_high=3, hit_low=4, throughput_ewma=5.5, gave_at_ms=6
    )
    (row,) = read(STATE, replace(a_row("b1", 0), figures=figures, memory=memory))
    assert (row.ewma, row.placement_ewma, row.throughput_ewma) == (0.1, 0.2, 5.5)
    assert (row.hit_high, row.hit_low, row.gave_at_ms) == (3, 4, 6)
    assert (row.bundles, row.msg_rate, row.msg_throughput) == (5, 3.0, 70.0)
    assert row.usage_average is None


@pytest.mark.parametrize("prefix", ["", "file:"])
def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "a b").mkdir()
    place = (tmp_path / "a b").as_uri() if prefix else tmp_path / "a b"
    with pytest.raises(StateVersionError, match="a b is not a checkpoint of this program"):
        read_state(place)


@pytest.mark.parametrize("part", [*STATE_FORMAT])
def test_state_of_another_version_is_left_to_it(tmp_path: Path, part: str) -> None:
    guard = guard_of(JobSettings(checkpoint=str(tmp_path)), EngineSettings())
    older = {**STATE_FORMAT, part: STATE_FORMAT[part] - 1}
    with guarded(tmp_path, replace(guard, product="0.0.1", state=older)):
        pass
    with pytest.raises(StateVersionError, match=r"written by version 0\.0\.1: read it with that"):
        read_state(tmp_path)
    with pytest.raises(StateVersionError, match=r"written by version 0\.0\.1: use that version"):
        checked(tmp_path, 3, None)


def test_a_checkpoint_before_its_first_micro_batch_holds_nothing(tmp_path: Path) -> None:
    job = JobSettings(checkpoint=str(tmp_path))
    with guarded(tmp_path, guard_of(job, EngineSettings(strategy="avg"))):
        assert read_state(tmp_path) == CheckpointState([], [])


NAMES = [f"c{number}" for number in range(100)]


def a_shard() -> MemoryVariable:
    store, variable = ShardStore(), MemoryVariable()
    for number, name in enumerate(NAMES):
        cluster = store.cluster(name)
        cluster.put_broker(BrokerState("b:1", 0, number, 1, 1, 1, 1, -1, "d", "d", Figures()))
        cluster.put_table("b:1", f"table of {name}".encode())
        cluster.put_table(note_name("b:1"), b"owned")
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
    changed["c7"].put_table(note_name("b:1"), b"other")
    assert content(changed) != content(clusters_of({0: a_shard()}))
