"""Partitions of the job, decided once, at the first start of a checkpoint; and the shards of
clusters.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Connections
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.remembered_and_changed_settings import guard_of, written_guard
from streaming.first_start import clusters_seen, cores_of, first_partitions, with_partitions
from streaming.settings import JobSettings
from streaming.state.shards import shard_keys, shard_of, spark_hash
from tests.telemetry_lines import load_report
from tests.topic_uris import topics_of

AUTO = JobSettings(shuffle_partitions="auto", master="local[4,3]")


@pytest.mark.parametrize(
    ("cores", "clusters", "expected"),
    [(4, 100, 4), (4, 3, 3), (4, 1, 1), (4, 0, 1), (1, 100, 1), (5_000, 5_000, 1_000)],
)
def test_as_many_as_cores_and_no_more_than_clusters(
    cores: int, clusters: int, expected: int
) -> None:
    assert first_partitions(cores, clusters) == expected


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,3]", 2), ("spark://m:7077", 5)]
)
def test_the_cores_are_those_of_a_local_master(master: str, cores: int) -> None:
    assert cores_of(JobSettings(master=master, read_tasks=5)) == cores


def telemetry(folder: Path, lines: Sequence[bytes]) -> Connections:
    with FileTopicWriter(folder / "telemetry") as writer:
        writer.append(lines)
    return reading(folder)


def reading(folder: Path) -> Connections:
    return Connections(topics=topics_of(telemetry=(folder / "telemetry").as_uri()))


def test_clusters_are_those_that_the_telemetry_names(tmp_path: Path) -> None:
    lines = [load_report(cluster=cluster) for cluster in ("a", "b", "a", "c")]
    assert clusters_seen(telemetry(tmp_path, [*lines, b"nonsense"])) == 3


def test_telemetry_that_nobody_has_written_yet_names_none(tmp_path: Path) -> None:
    assert clusters_seen(reading(tmp_path)) == 0


def test_the_number_of_the_first_start_stays_whatever_appears_later(tmp_path: Path) -> None:
    said: list[str] = []
    first = with_partitions(AUTO, None, said.append, clusters=lambda _: 3)
    assert first.shuffle_partitions == first.partitions == 3
    (sentence,) = said
    assert sentence.startswith("job.shuffle_partitions: 3 (auto: 4 cores, 3 clusters in the newest")
    with guarded(tmp_path, guard_of(first, EngineSettings())):
        pass
    later = with_partitions(AUTO, written_guard(tmp_path), clusters=lambda _: 100)
    assert later.shuffle_partitions == 3


def test_auto_matches_the_number_of_the_checkpoint_and_another_number_does_not(
    tmp_path: Path,
) -> None:
    for job in (JobSettings(shuffle_partitions=3), AUTO):
        with guarded(tmp_path, guard_of(job, EngineSettings())) as held:
            assert held.change is None
    other = guard_of(JobSettings(shuffle_partitions=2), EngineSettings())
    with pytest.raises(SettingsError, match="partitions: 2, but"), guarded(tmp_path, other):
        pass


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 1_000])
def test_every_partition_gets_exactly_one_shard(partitions: int) -> None:
    keys = shard_keys(partitions)
    assert [spark_hash(key) % partitions for key in keys] == list(range(partitions))


def test_clusters_spread_evenly_over_the_shards() -> None:
    found = Counter(shard_of(f"pulsar-{i:03}", 4) for i in range(1_000))
    assert sorted(found) == sorted(shard_keys(4))
    assert min(found.values()) > 200


def test_the_shard_of_a_cluster_is_part_of_the_format_of_a_checkpoint() -> None:
    assert [shard_of(name, 7) for name in ("c", "d", "ü", "")] == [0, 12, 9, 12]
