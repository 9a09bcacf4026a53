"""What `rebalancer state` prints of a cluster: the newest entry of each broker, in the order in
which they appeared, with its age.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.commands.state import forgotten_line
from strategies.cluster.memory import BrokerMemory
from strategies.cluster.model import Figures, Traffic
from strategies.cluster.state import Clock, ClusterState
from strategies.cluster.store import BrokerState
from strategies.errors import StateVersionError
from strategies.fold.engine import EngineSettings
from strategies.fold.time_jumps import remains
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.guard_file import STATE_FORMAT, guard_of
from streaming.checkpoint_state.reader import (
    BrokerStateRow,
    CheckpointState,
    ForgottenRow,
    read_state,
    state_of,
)
from streaming.checkpoint_state.repartition import checked
from streaming.settings import JobSettings
from streaming.state.store import SparkStore

STATE = ClusterState(round=7)


def a_broker(name: str, order: int) -> BrokerState:
    return BrokerState(name, order, 700, 1, 900, 650, 1, 1, "d", "d", Figures())


def read(state: ClusterState, *brokers: BrokerState) -> list[BrokerStateRow]:
    return state_of({"c": a_cluster(state, *brokers)}).brokers


def a_cluster(state: ClusterState, *brokers: BrokerState) -> SparkStore:
    return SparkStore(state, {broker.broker: broker for broker in brokers}, {})


def test_brokers_come_in_the_order_in_which_they_appeared() -> None:
    rows = read(STATE, a_broker("b1", 2), a_broker("b2", 3), a_broker("b3", 1))
    assert [(row.cluster, row.broker, row.round, row.sampled_at_ms) for row in rows] == [
        ("c", "b3", 7, 650),
        ("c", "b1", 7, 650),
        ("c", "b2", 7, 650),
    ]


def test_clusters_come_by_name() -> None:
    clusters = {name: a_cluster(STATE, a_broker("b", 0)) for name in "ecd"}
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
    (row,) = read(ClusterState(clock=Clock(1_000)), a_broker("b1", 0))
    assert (row.reported_at_ms, row.age_ms) == (900, 100)
    (row,) = read(ClusterState(), a_broker("b1", 0))
    assert row.age_ms is None


def test_every_figure_has_its_own_column() -> None:
    figures = Figures(traffic=Traffic(1.0, 2.0, 30.0, 40.0), bundle_count=5)
    memory = BrokerMemory(
        ewma=0.1, placement_ewma=0.2, hit_high=3, hit_low=4, throughput_ewma=5.5, gave_at_ms=6
    )
    (row,) = read(STATE, replace(a_broker("b1", 0), figures=figures, memory=memory))
    assert (
        row.ewma,
        row.placement_ewma,
        row.hit_high,
        row.hit_low,
        row.throughput_ewma,
        row.gave_at_ms,
    ) == (0.1, 0.2, 3, 4, 5.5, 6)
    assert (row.bundles, row.msg_rate, row.msg_throughput, row.usage_average) == (
        5,
        3.0,
        70.0,
        None,
    )


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
