"""Starts Spark: the only module that sets Spark's settings, chooses the workers' Python and
redirects Spark's output.

The values are measured with PySpark 4.2.0 on two cores; the comments name the cost of the default.
"""

import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseServer
from typing import Any, cast

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sinks.durable_files import is_full, make_room
from strategies.errors import RebalancerError
from streaming.cluster.remote_workers import (
    check_master,
    is_local,
    send_code,
    submitted_settings,
    take_over,
    worker_environment,
    worker_settings,
)
from streaming.cluster.spark_submit_start import is_submitted
from streaming.failures import first_line
from streaming.jars.locked_jars import connector_files
from streaming.java_process import JAVA_VARIABLES, java_memory_options, use_local_files
from streaming.settings import JobSettings, uses_kafka

#: Time that Spark's Java process may take to end after its connections have closed.
JAVA_ENDS_S = 2.0
_JAVA_FOLDER = "java.io.tmpdir"
_SECRET = "(?i)secret|password|token|jaas|keystore|access[.]?key|url"
_STREAMING = "org.apache.spark.sql.execution.streaming"

#: Number of past micro-batches' jobs and tasks that Spark remembers for its pages, which are off:
#: by default 1,000 plans, jobs and stages, and 100,000 tasks.
_FORGETFUL = {
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.sql.ui.retainedExecutions": "10",
}


#: In the output of Java and its start script: the line that names the reason of their end.
_REASON = re.compile(
    r"^(?!NOTE|Picked up).*(Error|Exception|Invalid|not found|not set|No such file)"
)


class SparkStartError(RebalancerError):
    """Spark did not start; the message names the file with Spark's own messages."""


def start_session(
    job: JobSettings,
    spark_log: Path,
    *,
    short: bool = False,
    keep_open: tuple[int, ...] = (),
    temporary: Path | None = None,
    log: Callable[[str], None] = lambda _: None,
) -> SparkSession:
    """Starts a session whose Java process prints to `spark_log`, never to this process's standard
    output or error.

    `short`: compile less, for runs of a minute or two. `keep_open`: file descriptors that stay open
    as long as the Java process runs. `temporary`: for Java's temporary files, if Java is started
    here. `log`: gets a line about the download of missing jars. Raises SparkStartError, JobError,
    SettingsError, JarsMissing.
    """
    check_master(job.master)
    spark_log.parent.mkdir(parents=True, exist_ok=True)
    log_bytes = spark_log.stat().st_size if spark_log.exists() else 0
    outer = worker_environment(job)
    conf = SparkConf(loadDefaults=True)
    ours = spark_settings(job, short=short, temporary=temporary)
    conf.setAll([*_all_settings(job, ours, outer, log).items()])
    try:
        with _environment(outer):
            if is_submitted():
                take_over(job, spark_log)
            elif SparkContext._gateway is None:
                _launch(conf, spark_log, keep_open)
            session = SparkSession(SparkContext.getOrCreate(conf))
            _quiet_about_dead_java(session)
            if not is_local(job.master):
                send_code(session, spark_log.parent)
            return session
    except (PySparkException, Py4JError, OSError) as error:
        reason = _reason(error, spark_log, log_bytes)
        if is_full(reason):
            room = make_room([spark_log.parent, Path(tempfile.gettempdir())])
            raise SparkStartError(f"Spark did not start ({reason}); {room}") from error
        raise SparkStartError(
            f"Spark did not start ({reason}): check that Java 17 or newer is installed "
            "(`java -version`, JAVA_HOME), job.master and job.driver_memory; "
            f"Spark's messages are in {spark_log}; `rebalancer doctor` looks for the usual causes"
        ) from error


def stop_session(session: SparkSession) -> None:
    """Stops Spark and waits for its Java process to end, so that a new session can start."""
    gateway = SparkContext._gateway
    if java_end() is not None:
        SparkContext._gateway = SparkContext._jvm = None
        return
    session.stop()
    if gateway is None:
        return
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait()


def java_end(patience_s: float = 0) -> int | None:
    """Returns the exit code of Spark's Java process (negative: number of a signal); None if it
    still runs after `patience_s` or is no child process.
    """
    return _end_of(getattr(SparkContext._gateway, "proc", None), patience_s)


def _end_of(process: subprocess.Popen[bytes] | None, patience_s: float) -> int | None:
    try:
        return None if process is None else int(process.wait(patience_s))
    except subprocess.TimeoutExpired:
        return None


def query_settings(job: JobSettings) -> Mapping[str, str]:
    """Returns the settings of a query, which can also be set on a running session."""
    return {
        "spark.sql.shuffle.partitions": str(
            job.partitions
        ),  # the default of 200 makes a batch take seconds
        "spark.sql.adaptive.enabled": "false",  # stateful queries cannot use it and warn about it
        # default: a batch takes a third longer
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Hadoop keeps checksums of local files anyway; 4 % of a batch
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            f"{_STREAMING}.state.RocksDBStateStoreProvider"
        ),
        # off: 9–30 % slower
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",  # 2: 12 % slower
        # no timers: nothing happens without records
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # every look at a topic without new records takes 2 to 3 ms of CPU; the default is 10 ms
        "spark.sql.streaming.pollingDelay": "1s",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        # default 256 MiB: a whole micro-batch in one Arrow batch, on both sides
        "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    }


def _all_settings(
    job: JobSettings,
    process: Mapping[str, str],
    outer: Mapping[str, str],
    log: Callable[[str], None],
) -> Mapping[str, str]:
    settings = {**process, **query_settings(job), **worker_settings(job)}
    kafka = uses_kafka(job.connections.topics)
    if kafka:
        # The options of the connector contain passwords, which plans and logs must not show.
        redacted = ("spark.sql.redaction.options.regex", "spark.redaction.regex")
        settings |= dict.fromkeys(redacted, _SECRET)
    if is_submitted():
        return submitted_settings(job, settings, outer["PYTHONPATH"])
    if kafka:
        settings["spark.jars"] = ",".join(map(str, connector_files(job.jars, log)))
    return settings


def spark_settings(
    job: JobSettings,
    *,
    short: bool = False,
    temporary: Path | None = None,
    outer: Mapping[str, str] = os.environ,
) -> Mapping[str, str]:
    """Returns the settings of the process, which are fixed when it starts. `short`, `temporary`:
    see `start_session`.
    """
    settings = {
        "spark.app.name": "pulsar-rebalancer",
        "spark.master": job.master,
        "spark.driver.memory": job.driver_memory,
        "spark.buffer.pageSize": "1m",  # default: a share of the heap, up to 64 MiB for each sort
        "spark.driver.extraJavaOptions": " ".join(_java_options(job, short, temporary, outer)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_FORGETFUL,
        "spark.log.structuredLogging.enabled": "false",
    }
    if is_local(job.master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings


def _java_options(
    job: JobSettings, short: bool, temporary: Path | None, outer: Mapping[str, str]
) -> Iterator[str]:
    configuration = Path(__file__).with_name("log4j2.json").resolve().as_uri()
    yield f"-Dlog4j2.configurationFile={configuration}"
    if short:
        # The second compiler does not pay off within two minutes: it takes half the CPU until the
        # first batches.
        yield "-XX:TieredStopAtLevel=1"
    yield from java_memory_options(job.driver_memory, outer)
    # In this folder Java unpacks its native libraries, and Spark keeps a copy of the state unless
    # its settings name another folder.
    is_named = any(_JAVA_FOLDER in outer.get(name, "") for name in JAVA_VARIABLES)
    if temporary is not None and not is_named:
        yield f'"-D{_JAVA_FOLDER}={temporary}"'


def _launch(conf: SparkConf, spark_log: Path, keep_open: tuple[int, ...]) -> None:
    """Starts Java in its own process group: Ctrl-C and `kill` of this group must not end it in the
    middle of a batch. It ends with this process.
    """
    with spark_log.open("ab") as log:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stdout": log, "stderr": log, "start_new_session": True, "pass_fds": keep_open}
        )
    try:
        check_version(gateway.jvm.org.apache.spark.package.SPARK_VERSION(), os.environ)
    except SparkStartError:
        gateway.shutdown()
        raise
    use_local_files(gateway)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def check_version(spark: str, environment: Mapping[str, str]) -> None:
    """Compares the Spark of the Java process with this Python's, patches apart. Raises
    SparkStartError.
    """
    if spark.split(".")[:2] == pyspark.__version__.split(".")[:2]:
        return
    home = environment.get("SPARK_HOME", "")
    raise SparkStartError(
        f"the Spark of SPARK_HOME={home} has version {spark}, this program needs "
        f"{pyspark.__version__}: unset SPARK_HOME, or name a folder with that version"
    )


def _quiet_about_dead_java(session: SparkSession) -> None:
    """Suppresses the stack traces of py4j and PySpark's accumulator server after Java has ended;
    the caller logs that end in one line (`java_end`).
    """
    root = logging.getLogger()
    root.removeFilter(_is_not_of_py4j)
    root.addFilter(_is_not_of_py4j)
    server: Any = session.sparkContext._accumulatorServer
    quiet_after_end(server, getattr(SparkContext._gateway, "proc", None))


def quiet_after_end(
    server: BaseServer, java: subprocess.Popen[bytes] | None, patience_s: float = JAVA_ENDS_S
) -> None:
    """Lets a server print the errors of its requests only if Java still runs `patience_s` after the
    error. The server's thread may run after `stop_session` has forgotten the gateway.
    """
    print_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if _end_of(java, patience_s) is None:
            print_error(request, address)

    cast(Any, server).handle_error = handle_error


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Exception while sending command")


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables while PySpark starts, which reads these values from the
    environment only, then restores the old ones.
    """
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _reason(error: BaseException, spark_log: Path, log_bytes: int) -> str:
    """Returns why Spark did not start, in one line. `log_bytes`: size of the log before it."""
    if "JAVA_GATEWAY_EXITED" not in str(error):
        return first_line(str(error))
    with spark_log.open("rb") as log:
        log.seek(log_bytes)
        lines = log.read().decode(errors="replace").splitlines()
    return next(filter(_REASON.search, lines), first_line(str(error)))
