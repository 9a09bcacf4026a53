"""The job started by `spark-submit` on a standalone master with two workers, in client mode and in
cluster mode: the same bytes as the plain loop, which `rebalancer run` equals in other tests.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from streaming.cluster.spark_submit_start import UNPACKED
from tests.replayed import replayed
from tests.unit.command_line import rebalancer
from tests.unit.test_application import archive
from tools.kills.compared_topics import compare
from tools.processes.real_job import TOPICS, RealJob, kill_marked, marked, recording
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values
from tools.servers.spark_cluster import SparkCluster, spark_cluster
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults, pytest.mark.heavy]
RECORDING = "modular-broker-joins"
_PATIENCE_S = 500.0
_MARK = "TESTS_FAULTS_RUN"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Each worker has room for a driver and an executor."""
    folder = tmp_path_factory.mktemp("spark-submit")
    with spark_cluster(folder, workers=2, cores=2, memory="1200m") as started:
        yield started


@dataclass
class Submitted:
    """A job of a folder, as an application: `words` by mode are what `rebalancer ship` prints."""

    job: RealJob
    words: Mapping[str, Sequence[str]]
    environment: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.job.folder / "submit.log"

    @property
    def mark(self) -> str:
        return f"submitted-{self.job.folder}"

    def start(self, mode: str) -> subprocess.Popen[bytes]:
        """`spark-submit`, in a folder of its own and with a Python that has no packages."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.words[mode],
                cwd=self.job.folder,
                env=dict(self.environment) | {_MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""


@contextlib.contextmanager
def submitted(cluster: SparkCluster, folder: Path, *more: str) -> Iterator[Submitted]:
    with RealJob(folder / "job", max_records_per_batch=100) as job:
        settings = [*job.assignments, f"job.master={cluster.url}", "job.driver_memory=600m", *more]
        words = [word for one in settings for word in ("--set", one)]
        shipped = rebalancer("ship", "--application", folder / "our job #2 100%", "--json", *words)
        one = Submitted(job, shipped.json["spark_submit"], bare_environment(cluster))
        try:
            yield one
        finally:
            kill_marked(one.mark)


def bare_environment(cluster: SparkCluster) -> dict[str, str]:
    """That of the workers' machines: Spark and a Python, none of our packages."""
    ours, worker = ("PYSPARK_", "PYTHON", "REBALANCER_", "VIRTUAL_"), cluster.workers[0]
    inherited = {name: it for name, it in os.environ.items() if not name.startswith(ours)}
    programs = str(Path(pyspark.__file__).parent / "bin")
    path = os.pathsep.join([programs, worker.environment["PATH"]])
    # What a killed launcher has unpacked stays.
    return inherited | dict(cluster.environment) | {"PATH": path, "TMPDIR": str(worker.folder)}


def assert_as_in_the_plain_loop(job: RealJob, lines: Sequence[bytes]) -> None:
    reference = replayed(lines, job.engine)
    assert reference["commands"]
    for kind in ("commands", "rounds"):
        assert job.published(kind) == reference[kind]


def driver_log(cluster: SparkCluster) -> str:
    found = [file for one in cluster.workers for file in one.folder.glob("work/driver-*/stdout")]
    return "".join(file.read_text("utf-8", "replace") for file in sorted(found))


def test_cluster_mode_gives_the_bytes_of_the_plain_loop(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """Spark refuses Python programs in cluster mode of a standalone master, and so one of Spark's
    own Java programs is submitted, which starts Python on a worker.
    """
    lines = recording(RECORDING)
    with submitted(cluster, tmp_path) as one:
        one.job.publish(lines)
        one.words = {"cluster": [*one.words["cluster"], "--drain"]}
        assert one.start("cluster").wait(_PATIENCE_S) == 0, one.said()[-3000:]
        ended = re.compile(r"stopped \(drained\)|error:")
        eventually(
            lambda: ended.search(driver_log(cluster)) is not None,
            _PATIENCE_S,
            "no end of the driver",
        )
        assert_as_in_the_plain_loop(one.job, lines)


def running_client(one: Submitted, lines: Sequence[bytes]) -> subprocess.Popen[bytes]:
    """spark-submit with a driver that has published a round, unless it has ended."""
    one.job.publish(lines)
    running = one.start("client")
    eventually(
        lambda: one.job.published("rounds") != [] or running.poll() is not None,
        _PATIENCE_S,
        "no round was published",
    )
    return running


def assert_that_the_checkpoint_goes_on(job: RealJob, lines: Sequence[bytes]) -> None:
    """After a kill: commands and rounds may be there twice, none is missing or another one."""
    job.drain()
    reference = replayed(lines, job.engine)
    for kind in ("commands", "rounds"):
        assert compare(kind, job.published(kind), reference[kind]).faults == ()


@pytest.mark.slow
def test_sigterm_to_spark_submit_ends_the_job_after_its_micro_batch(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """Java gets the signal, which would end it in the middle of a micro-batch."""
    lines = recording(RECORDING)
    with submitted(cluster, tmp_path) as one:
        running = running_client(one, lines)
        running.send_signal(signal.SIGTERM)
        assert running.wait(_PATIENCE_S) == 0, one.said()[-3000:]
        assert "stopped (SIGTERM)" in one.said()
        # The checkpoint's log says where Spark's messages are.
        assert "log of spark-submit" in (one.job.checkpoint / "spark.log").read_text()
        one.job.drain()  # `rebalancer run` continues the checkpoint, and repeats no micro-batch
        assert_as_in_the_plain_loop(one.job, lines)


@pytest.mark.slow
def test_topics_on_kafka_need_the_jars_of_the_command_line(
    cluster: SparkCluster, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The master is this machine here, which spark-submit may name as well."""
    lines = recording(RECORDING)
    uris = {name: kafka.topic(f"submitted-{name}", 1) for name in TOPICS}
    put(uris["telemetry"], lines)
    topics = [f"topics.{name}={uri}" for name, uri in uris.items()]
    with submitted(cluster, tmp_path, *topics, "job.master=local[2]") as one:
        words = [*one.words["client"], "--drain"]
        jars = words.index("--jars")
        one.words = {"client": words, "without": words[:jars] + words[jars + 2 :]}
        assert one.start("without").wait(_PATIENCE_S) == 2
        assert "spark-submit has no Kafka connector" in one.said()
        assert one.start("client").wait(_PATIENCE_S) == 0, one.said()[-3000:]
        reference = replayed(lines, one.job.engine)
        for kind in ("commands", "rounds"):
            assert list(values(uris[kind])) == reference[kind]


def test_settings_are_refused_with_the_exit_code_of_the_program(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    with submitted(cluster, tmp_path) as one:
        one.words = {"client": [*one.words["client"], "--set", "round.interval_ms=0"]}
        assert one.start("client").wait(_PATIENCE_S) == 2
        assert "round.interval_ms" in one.said()


def test_a_driver_without_its_packages_says_what_is_missing(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    """As on a machine without a copy of the application, and with an archive of another Python."""
    other = f"{archive(tmp_path, python='3.9').as_uri()}#{UNPACKED}"
    cases = {
        f"file:///nowhere/e.tar.gz#{UNPACKED}": "/nowhere/e.tar.gz is not a file on this machine",
        "file:///nowhere/e.tar.gz": f"--archives FILE#{UNPACKED}",
        other: "submit with --conf spark.pyspark.python=python3.9",
    }
    with submitted(cluster, tmp_path, "job.master=local[1]") as one:
        words = list(one.words["client"])
        for archives, sentence in cases.items():
            words[words.index("--archives") + 1] = archives
            one.words = {"client": words}
            assert one.start("client").wait(_PATIENCE_S) == 1
            assert sentence in one.said()
        assert "Traceback" not in one.said()


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["java", "python"])
def test_a_killed_process_ends_the_other_and_frees_the_checkpoint(
    cluster: SparkCluster, tmp_path: Path, killed: str
) -> None:
    """As the kernel does when memory runs out, and a worker that ends a driver too slow to stop."""
    lines = recording(RECORDING)
    with submitted(cluster, tmp_path) as one:
        running = running_client(one, lines)
        lock = json.loads((one.job.checkpoint / ".rebalancer.lock").read_bytes())
        os.kill({"java": running.pid, "python": int(lock["pid"])}[killed], signal.SIGKILL)
        assert running.wait(_PATIENCE_S) != 0
        eventually(lambda: not marked(one.mark), _PATIENCE_S, "a process of the job remains")
        assert_that_the_checkpoint_goes_on(one.job, lines)
