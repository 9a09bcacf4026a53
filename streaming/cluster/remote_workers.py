"""Prepares Spark's remote workers: Python, packages, our code and the checkpoint's folder; checks
that they have everything.

Also the job as an application of `spark-submit`: Spark's Java process runs first and starts this
one. Java's memory, jars and log are then those of the command line of `spark-submit`. Java does not
end with this process as a child would, and it gets the signals.
"""

import os
import signal
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sinks.graceful_stop import Stop
from strategies.errors import SettingsError, raise_complaints
from streaming.checkpoint.guard import CODE, JAVA_LOCK, SPARK_LOG, CheckpointInUse, used_by_another
from streaming.checkpoint.remembered_and_changed_settings import GUARD
from streaming.cluster import python_start, python_start_elsewhere
from streaming.cluster.missing_on_worker import WorkerReport, content_of, report_missing
from streaming.cluster.shipping import PROJECT, WORKER_PACKAGES, check_environment, python_name
from streaming.cluster.spark_submit_start import UNPACKED, connect, is_submitted
from streaming.failures import JobError, explain
from streaming.java_process import allocator_environment
from streaming.settings import JobSettings, local_path, uses_kafka

#: The driver's PySpark is installed, and not in an archive: workers here can import the same.
_INSTALLED = Path(pyspark.__file__).is_file()
#: Keys that tasks read: they sign commands, and check intents.
_TASKS_READ = (
    "key_file",
    "previous_key_file",
    "intents_key_file",
    "previous_intents_key_file",
)
#: Files of the clients that read telemetry on Pulsar.
_CLIENTS_READ = ("token_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
_WORKERS_COME_S = 120.0
_PROBES = 8
_MASTER_ANSWERS_S = 10.0
_KAFKA_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
#: Settings that take effect only when Java starts.
_OF_JAVA = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.jars")
_LOG = (
    "spark-submit started this job: Spark's messages are in the log of spark-submit (standard "
    "error of the driver), not here.\n"
)


def is_local(master: str) -> bool:
    """True if the workers are threads and processes of this machine."""
    return master.startswith("local")


def check_master(master: str) -> None:
    """Connects to a standalone master: Spark itself retries for a minute and does not report why.
    Raises JobError.
    """
    if not master.startswith("spark://"):
        return
    refusals = [_refusal(address) for address in master.removeprefix("spark://").split(",")]
    if all(refusals):
        raise JobError(
            f"job.master: no server answers at {master} ({'; '.join(refusals)}): check the "
            "address, and that the master runs"
        )


def worker_settings(job: JobSettings) -> Mapping[str, str]:
    """Settings that make workers unpack the archive of packages, if there is one. Raises
    SettingsError if it does not fit.
    """
    if is_local(job.master) or not job.environment:
        return {}
    archive = local_path(job.environment)
    if archive is None:
        return _unpacked(job.environment)
    if not is_submitted():  # otherwise this process has its packages from the archive, too
        check_environment(archive)
    return _unpacked(archive.as_uri())


def worker_environment(
    job: JobSettings, outer: Mapping[str, str] = os.environ
) -> Mapping[str, str]:
    """Returns the environment of the driver's Java process, which selects the workers' Python.

    Local: this Python. Remote: PYSPARK_PYTHON; without it python3.x on the worker's PATH if
    packages come in an archive, otherwise this Python's path. The driver uses the same name, so it
    must lead to our packages here too.
    """
    installed = is_local(job.master) and not is_submitted() and _INSTALLED
    start = python_start if installed else python_start_elsewhere
    ours = [str(Path(str(start.__file__)).parent), str(PROJECT)]
    ours += [path for path in (outer.get("PYTHONPATH"),) if path]
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    if is_local(job.master):
        if is_submitted():  # an archive of packages is unpacked for this process alone
            ours += packages
        local = {
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return {"PYTHONPATH": os.pathsep.join(ours), **local, **allocator_environment(outer)}
    python = outer.get("PYSPARK_PYTHON") or (python_name() if job.environment else sys.executable)
    return {
        "PYTHONPATH": os.pathsep.join([*ours, *packages]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), outer.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def send_code(session: SparkSession, folder: Path) -> None:
    """Sends our packages to all workers: they run this version, whatever they have installed.

    Workers fetch the zip when they join; it stays in `folder`.
    """
    file = folder / CODE
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for source in (path for name in WORKER_PACKAGES for path in (PROJECT / name).rglob("*")):
            if source.suffix != ".pyc":
                archive.write(source, source.relative_to(PROJECT))
    before = list(sys.path)
    session.sparkContext.addPyFile(str(file))
    sys.path[:] = before  # on the driver the zip would hide the folder that it was made from


def check_workers(
    session: SparkSession,
    job: JobSettings,
    folder: Path,
    stop: threading.Event,
    timeout_s: float = _WORKERS_COME_S,
) -> None:
    """Waits for the first worker, then checks that all present workers have our packages and see
    the paths they read.

    `folder`: the checkpoint. Raises JobError if none joins within `timeout_s`, SettingsError with a
    complaint for each thing that a worker lacks. Returns early if `stop` is set.
    """
    if not _some_worker(session, stop, timeout_s):
        return
    shared = read_by_tasks(job, folder)
    # A worker may have a checkpoint of its own there, from an earlier job: another epoch is in it.
    guard = str(folder / GUARD)
    paths = {path: content_of(path) if path == guard else "" for path in shared}
    try:
        reports = (
            session.sparkContext.parallelize(range(_PROBES), _PROBES)
            .mapPartitions(lambda _: [report_missing(paths)])
            .collect()
        )
    except (PySparkException, Py4JError) as error:
        raise explain(error, folder / SPARK_LOG) from error
    complaints = list(_complaints(set(reports), shared))
    raise_complaints(complaints)


def _refusal(address: str) -> str:
    """Returns the reason why host:port cannot be reached; empty if it can."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _MASTER_ANSWERS_S).close()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def _unpacked(archive: str) -> Mapping[str, str]:
    return {"spark.archives": f"{archive}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": UNPACKED}


def _some_worker(session: SparkSession, stop: threading.Event, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not stop.is_set():
        try:
            # The driver is counted too.
            if session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1:
                return True
        except Py4JError as error:
            raise JobError(
                f"{session.sparkContext.master} does not answer, and Spark gave up: check "
                "job.master, and that the master runs"
            ) from error
        if time.monotonic() >= deadline:
            raise JobError(
                f"no worker of {session.sparkContext.master} took the job within "
                f"{timeout_s:g} s: check on the master's page that there "
                "are workers with cores and memory left (spark.executor.memory, "
                "spark.cores.max), and that they reach this machine by "
                "the name it gives (spark.driver.host)"
            )
        stop.wait(0.1)
    return False


def read_by_tasks(job: JobSettings, folder: Path) -> Mapping[str, str]:
    """Paths that tasks read → their settings; without paths that do not exist here either."""
    used, telemetry = job.connections, job.connections.topics.telemetry
    places = {
        str(folder / GUARD): "job.checkpoint",
        **{getattr(used.signing, name): f"signing.{name}" for name in _TASKS_READ},
    }
    if telemetry.scheme == "file":
        places[str(telemetry.folder)] = "topics.telemetry"
    if telemetry.scheme == "pulsar":
        places |= {getattr(used.pulsar, name): f"pulsar.{name}" for name in _CLIENTS_READ}
    return {path: setting for path, setting in places.items() if path and Path(path).exists()}


def _complaints(reports: Iterable[WorkerReport], shared: Mapping[str, str]) -> Iterator[str]:
    for report in sorted(reports):
        if report.missing:
            yield (
                f"job.environment: the Python of worker {report.host} has no "
                f"{', '.join(report.missing)}: pack what it needs with "
                "`rebalancer ship FILE.tar.gz` and name the file as job.environment, or "
                "install the same packages there"
            )
        for path in report.unseen:
            yield (
                f"{shared[path]}: worker {report.host} does not see {path} of this machine: it "
                "must be readable there under the same path as here (a folder that driver and all "
                "workers share; of a key, a token or a certificate a copy is enough)"
            )


def submitted_settings(
    job: JobSettings, settings: Mapping[str, str], python_path: str
) -> dict[str, str]:
    """Settings of a session in the Java process of `spark-submit`, without those that only a new
    Java process would follow. `python_path`: for the Python processes that this Java starts, which
    do not inherit ours; workers elsewhere have none of its folders.
    """
    changeable = {name: value for name, value in settings.items() if name not in _OF_JAVA}
    unpacked = [UNPACKED] if job.environment and not is_local(job.master) else []
    return changeable | {"spark.executorEnv.PYTHONPATH": os.pathsep.join([*unpacked, python_path])}


def take_over(job: JobSettings, spark_log: Path) -> None:
    """Prepares the Java process of `spark-submit`: checks its jars, locks the checkpoint for it,
    and says in `spark_log` where Spark's messages are. Raises SettingsError, CheckpointInUse.
    """
    classes = connect().org.apache.spark.util.Utils
    if uses_kafka(job.connections.topics) and not classes.classIsLoadable(_KAFKA_CLASS):
        raise SettingsError(
            [
                "topics: some are on Kafka, and spark-submit has no Kafka connector: name its jars "
                "with --jars; `rebalancer ship --application DIR` writes them to DIR and prints "
                "the command line"
            ]
        )
    _lock(spark_log.parent)
    with spark_log.open("a", encoding="utf-8") as log:
        log.write(_LOG)


@contextmanager
def stopped_by_java(stop: Stop) -> Iterator[None]:
    """While this lasts, SIGTERM to Java sets `stop` instead of ending Java in the middle of a
    micro-batch; a second one ends both. Java ignores Ctrl-C, which this process gets too.
    """
    misc = connect().sun.misc
    ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]
    handlers = {"TERM": _Forward(stop), "INT": misc.SignalHandler.SIG_IGN}
    before = {
        name: misc.Signal.handle(misc.Signal(name), handler) for name, handler in handlers.items()
    }
    try:
        yield
    finally:
        for name, handler in before.items():
            misc.Signal.handle(misc.Signal(name), handler)


class _Forward:
    """Java's handler of SIGTERM."""

    class Java:
        """The interface, for py4j."""

        implements = ("sun.misc.SignalHandler",)

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._asked = False

    def handle(self, _signal: Any) -> None:
        """Handles a signal; Java calls it."""
        if self._asked:
            os._exit(128 + signal.SIGTERM)
        self._asked = True
        if not self._stop.is_set():
            self._stop.by = "SIGTERM"
            self._stop.set()


def _lock(folder: Path) -> None:
    """Locks the checkpoint for Java, which may outlive this process for a moment. The lock lasts
    as long as Java: its only reference is there.
    """
    java = connect().java
    channel = java.io.RandomAccessFile(str(folder / JAVA_LOCK), "rw").getChannel()
    try:
        lock = channel.tryLock()
    except Py4JError:  # this Java process has it already
        lock = None
    if lock is None:
        raise CheckpointInUse(used_by_another(folder))
    java.lang.System.getProperties().put("rebalancer.checkpoint.lock", lock)
