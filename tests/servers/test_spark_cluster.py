"""The job on a Spark standalone cluster: what it sends to workers is all they need, and one of them
may die.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import pytest

from streaming.cluster.shipping import python_name, write_environment
from tests.replayed import replayed
from tests.topic_uris import topic_settings
from tools.kills.compared_topics import compare
from tools.kills.kill_job import newest_batch
from tools.processes.real_job import TOPICS, JobEnded, RealJob, recording
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values
from tools.servers.spark_cluster import SparkCluster, SparkProcess, spark_cluster

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]
RECORDINGS = ("modular-broker-joins", "modular-broker-killed")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `rebalancer ship` writes."""
    file = tmp_path_factory.mktemp("shipped") / "environment.tar.gz"
    write_environment(file)
    return file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark-cluster"), workers=2) as started:
        yield started


def ten_clusters() -> list[bytes]:
    """Two recordings five times over, each copy under a name of its own, record by record beside
    each other.
    """
    copies = [renamed(RECORDINGS[number % 2], f"cluster-{number}") for number in range(10)]
    return [line for together in zip_longest(*copies) for line in together if line is not None]


def renamed(name: str, cluster: str) -> list[bytes]:
    lines = recording(name)
    before = json.dumps(json.loads(lines[0])["cluster"]).encode()
    return [
        line.replace(b'"cluster":' + before, f'"cluster":"{cluster}"'.encode()) for line in lines
    ]


def by_cluster(records: Sequence[bytes]) -> list[bytes]:
    """Clusters lie in several partitions: their order among each other says nothing, that within
    each does.
    """
    return sorted(records, key=lambda record: json.loads(record)["cluster"])


def test_workers_without_our_packages_are_named_with_what_to_do(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    bare = {**cluster.environment, "PYSPARK_PYTHON": python_name()}
    with RealJob(tmp_path / "job", environment=bare) as job:
        job.publish([b"{}"])
        job.start("--drain", "--master", cluster.url)
        with pytest.raises(JobEnded):
            job.wait_until(lambda: False, seconds=300)
        told = job.log.read_text()
    lacks = r"job\.environment: the Python of worker \S+ has no numpy, msgspec, "
    remedy = "pack what it needs with `rebalancer"
    assert re.search(rf"^\S+Z error: {lacks}.*: {remedy}", told, re.MULTILINE)
    assert "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [2, 1])
def test_one_of_two_workers_is_killed_and_ten_clusters_decide_as_in_the_plain_replay(
    cluster: SparkCluster, environment: Path, kafka: KafkaBroker, tmp_path: Path, partitions: int
) -> None:
    """With one partition one worker does everything and keeps the state: that one is killed."""
    lines = ten_clusters()
    uris = {name: kafka.topic(f"ten-clusters-{partitions}-{name}", 4) for name in TOPICS}
    put(uris["telemetry"], lines)
    given = {"job.environment": environment, "job.shuffle_partitions": partitions}
    words = set_words({**topic_settings(uris), **given})
    with RealJob(
        tmp_path / "job", max_records_per_batch=250, environment=cluster.environment
    ) as job:
        reference = replayed(lines, job.engine)
        expected = {kind: by_cluster(reference[kind]) for kind in ("commands", "rounds")}
        job.start("--drain", "--master", cluster.url, *words)
        job.wait_until(lambda: newest_batch(job.checkpoint) >= 3, seconds=300)
        victim = max(cluster.workers, key=SparkProcess.python_seconds)
        killed = victim.kill()
        done = len(set(values(uris["rounds"])))
        job.wait_until(lambda: not job.running, seconds=300)
    victim.start()
    assert killed >= 3  # the worker, its executor, the executor's Python
    assert done < len(expected["rounds"])
    clusters = {json.loads(command)["cluster"] for command in expected["commands"]}
    assert clusters == {f"cluster-{number}" for number in range(10)}
    for kind, wanted in expected.items():
        assert compare(kind, by_cluster(values(uris[kind])), wanted).faults == ()
