"""The job as an application of `spark-submit`: Spark's Java process runs first and starts this one.

Java's memory, jars and log are then those of the command line of `spark-submit`. Java does not end
with this process as a child would, and it gets the signals.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from sinks.graceful_stop import Stop
from strategies.errors import SettingsError
from streaming.checkpoint.guard import JAVA_LOCK, CheckpointInUse, used_by_another
from streaming.cluster.remote_workers import is_local
from streaming.cluster.spark_submit_start import UNPACKED, connect
from streaming.settings import JobSettings, uses_kafka

_KAFKA_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
#: Settings that take effect only when Java starts.
_OF_JAVA = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.jars")
_LOG = (
    "spark-submit started this job: Spark's messages are in the log of spark-submit (standard "
    "error of the driver), not here.\n"
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
