"""The free space of the disks that a process writes to."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from sinks.metrics.disk import DiskMetrics, DiskSpace, disk_space, file_topics
from sinks.topics.addresses import Topics, file_topic, parse_topic
from tests.unit.metric_samples import samples


def test_the_space_is_read_at_every_request(tmp_path: Path) -> None:
    registry, free = CollectorRegistry(), [300.0]
    DiskMetrics(registry, {"executor.state": tmp_path}, lambda _: DiskSpace(1000, free[0]))
    assert samples(registry, "disk_free_bytes") == {("executor.state",): 300}
    free[0] = 200
    assert samples(registry, "disk_free_bytes") == {("executor.state",): 200}
    assert samples(registry, "disk_size_bytes") == {("executor.state",): 1000}


def test_a_folder_that_does_not_exist_yet_has_the_space_of_its_parent(tmp_path: Path) -> None:
    found = disk_space(tmp_path / "not" / "yet")
    assert found.size == shutil.disk_usage(tmp_path).total
    assert 0 < found.free <= found.size


def test_a_folder_that_cannot_be_read_has_no_figure(tmp_path: Path) -> None:
    found = disk_space(tmp_path / ("x" * 300))
    assert all(map(math.isnan, found))


@pytest.mark.parametrize("names", [["telemetry"], ["telemetry", "rounds", "commands"]])
def test_only_topics_in_folders_have_a_disk(names: list[str], tmp_path: Path) -> None:
    topics = Topics(telemetry=file_topic(tmp_path / "t"), rounds=parse_topic("kafka://h:1/rounds"))
    found = file_topics(topics, names)
    assert found["topics.telemetry"] == tmp_path / "t"
    assert found.keys() == {f"topics.{name}" for name in names if name != "rounds"}
