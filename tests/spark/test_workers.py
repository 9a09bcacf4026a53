"""What a driver expects of Spark's workers on other machines, and what it says when they do not
come.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import py4j
import pyspark
import pytest
from pyspark.sql import SparkSession

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_settings import Connections, Topics, parse_topic
from streaming.cluster.missing_on_worker import content_of, report_missing
from streaming.cluster.remote_workers import (
    check_master,
    check_workers,
    read_by_tasks,
    worker_environment,
    worker_settings,
)
from streaming.cluster.shipping import python_name
from streaming.failures import JobError
from streaming.settings import JobSettings
from tests.python_process import python
from tests.unit.test_application import archive
from tools.servers.jvm import free_ports

pytestmark = pytest.mark.spark
CLUSTER = JobSettings(master="spark://master:7077")


def test_on_this_machine_workers_are_this_python() -> None:
    assert worker_environment(JobSettings())["PYSPARK_PYTHON"] == sys.executable
    assert worker_settings(JobSettings(environment="/nowhere/environment.tar.gz")) == {}


def test_on_this_machine_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    """And not Spark's archive of it, which each process would compile again."""

    def imported(_: object) -> str:
        import py4j
        import pyspark

        return f"{pyspark.__file__} {py4j.__file__}"

    found = spark.sparkContext.parallelize([0], 1).map(imported).collect()
    assert found == [f"{pyspark.__file__} {py4j.__file__}"]


def test_a_user_s_own_archive_stays_on_the_path_of_workers(tmp_path: Path) -> None:
    theirs, spark = str(tmp_path / "theirs.zip"), "/opt/spark/python/lib/pyspark.zip"
    start = worker_environment(JobSettings())["PYTHONPATH"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((spark, theirs, start))}
    path = python("import sys; print(sys.path)", environment=environment)
    assert (theirs in path, spark in path) == (True, False)


#: What a worker imports before it connects, in place of a module of Python that PySpark imports.
WAITS = """
import os, time
while not os.path.exists({go!r}):
    time.sleep(0.05)
raise ImportError("it has waited")
"""


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077"])
@pytest.mark.parametrize(
    "worker",
    [
        "pyspark.sql.streaming.transform_with_state_driver_worker",
        "pyspark.sql.streaming.python_streaming_source_runner",
        "pyspark.worker",
    ],
)
def test_a_worker_connects_and_sends_its_secret_before_it_imports_pyspark(
    worker: str, master: str, tmp_path: Path
) -> None:
    """Java waits for each for 10 s, in which a busy machine may import nothing."""
    go = tmp_path / "go"
    (tmp_path / "pstats.py").write_text(WAITS.format(go=str(go)))
    path = worker_environment(JobSettings(master=master), {"PYTHONPATH": str(tmp_path)})
    with started_by_java(worker, path["PYTHONPATH"]) as (process, file):
        assert process.poll() is None
        go.touch()
        assert file.read(1) == b"", "the import has failed"


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077"])
def test_java_gets_secret_and_number_of_the_worker_over_the_early_connection(master: str) -> None:
    path = worker_environment(JobSettings(master=master), {})["PYTHONPATH"]
    module = "pyspark.sql.streaming.transform_with_state_driver_worker"
    with started_by_java(module, path) as (process, file):
        file.write(in_java("ok"))
        file.flush()
        assert int.from_bytes(file.read(4)) == process.pid


SECRET = "secret"


def in_java(text: str) -> bytes:
    return len(text).to_bytes(4) + text.encode()


def as_java_starts_it(java: socket.socket, path: str) -> dict[str, str]:
    port = {"PYTHON_WORKER_FACTORY_PORT": str(java.getsockname()[1])}
    return os.environ | port | {"PYTHON_WORKER_FACTORY_SECRET": SECRET, "PYTHONPATH": path}


@contextmanager
def started_by_java(module: str, path: str) -> Iterator[tuple[subprocess.Popen[bytes], BinaryIO]]:
    """A worker that has sent its secret, and Java's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as java:
        java.settimeout(60)
        environment = as_java_starts_it(java, path)
        process = subprocess.Popen([sys.executable, "-m", module], env=environment)
        try:
            connection, _ = java.accept()
            with connection, connection.makefile("rwb") as file:
                assert file.read(4 + len(SECRET)) == in_java(SECRET)
                yield process, cast(BinaryIO, file)
        finally:
            process.kill()
            process.wait()


def test_a_process_that_a_worker_starts_does_not_connect_again() -> None:
    path = worker_environment(JobSettings(), {})["PYTHONPATH"]
    command = [sys.executable, "-c", "import os; print('PYTHON_WORKER_FACTORY_PORT' in os.environ)"]
    with socket.create_server(("127.0.0.1", 0)) as java:
        environment = as_java_starts_it(java, path)
        said = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert (said.stdout, said.stderr) == (b"False\n", b"")


def test_elsewhere_an_archive_is_unpacked_and_python_found_by_name() -> None:
    shipped = replace(CLUSTER, environment="https://files.example/environment.tar.gz")
    assert worker_settings(shipped)["spark.archives"].startswith(f"{shipped.environment}#")
    usual = worker_environment(shipped, {"PATH": "/usr/bin"})
    chosen = worker_environment(shipped, {"PYSPARK_PYTHON": "/opt/python"})
    installed = worker_environment(CLUSTER, {})
    found = [one["PYSPARK_PYTHON"] for one in (usual, chosen, installed)]
    assert found == [python_name(), "/opt/python", sys.executable]
    assert usual["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    (nobody,) = free_ports(1)
    for master, why in ((f"127.0.0.1:{nobody}", r" \(.*refused\): check"), ("nonsense", "")):
        with pytest.raises(JobError, match=f"no server answers at spark://{master}{why}"):
            check_master(f"spark://{master}")


def test_of_several_masters_one_is_enough() -> None:
    (nobody,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as master:
        check_master(f"spark://127.0.0.1:{nobody},127.0.0.1:{master.getsockname()[1]}")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as master:
        check_master(f"spark://[::1]:{master.getsockname()[1]}")
    check_master("local[2]")


def test_without_any_worker_it_says_where_to_look_unless_it_is_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A session of this machine has no workers but itself."""
    stopped = threading.Event()
    told = r"no worker of local.* took the job within 0 s: check on the master's page"
    with pytest.raises(JobError, match=told):
        check_workers(spark, CLUSTER, tmp_path, stopped, timeout_s=0)
    stopped.set()
    check_workers(spark, CLUSTER, tmp_path, stopped)


def test_tasks_that_read_pulsar_need_its_token_on_every_worker(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    topics = Topics(telemetry=parse_topic("pulsar://broker:6650/ops/rebalancer/telemetry"))
    pulsar = PulsarSettings(token_file=str(token), tls_ca_file="/nowhere")
    job = replace(CLUSTER, connections=Connections(topics=topics, pulsar=pulsar))
    assert read_by_tasks(job, tmp_path) == {str(token): "pulsar.token_file"}


def test_an_archive_in_a_folder_with_a_blank_is_named_as_spark_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "our files"
    folder.mkdir()
    job = replace(CLUSTER, environment=str(archive(folder)))
    archives, _, _ = worker_settings(job)["spark.archives"].partition("#")
    assert archives == f"file://{tmp_path}/our%20files/environment.tar.gz"


def test_a_worker_says_what_it_lacks(tmp_path: Path) -> None:
    here, elsewhere, no_name = (str(tmp_path / name) for name in ("here", "elsewhere", "a" * 300))
    Path(here).touch()
    report = report_missing({here: "", elsewhere: "", no_name: ""})
    assert report[1:] == ((), (elsewhere, no_name))


def test_a_worker_with_a_checkpoint_of_its_own_does_not_see_ours(tmp_path: Path) -> None:
    guard = tmp_path / "rebalancer.json"
    guard.write_text('{"epoch": 4}')
    needed = {str(guard): content_of(str(guard))}
    assert report_missing(needed).unseen == ()
    guard.write_text('{"epoch": 3}')
    assert report_missing(needed).unseen == (str(guard),)
    guard.unlink()
    assert report_missing(needed).unseen == (str(guard),)
