"""Settings of the streaming job: how Spark runs it. Imports no Spark."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from sinks.topics.topic_settings import Connections, Topics
from strategies.errors import SettingsError
from strategies.settings import Setting
from streaming.jars.locked_jars import JarSettings

#: The masters that Spark knows.
_MASTER = re.compile(
    r"local(\[(0*[1-9]\d*|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn"
)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of the job's execution. None of them changes a decision; `shuffle_partitions` is
    fixed in the checkpoint.
    """

    checkpoint: Annotated[str, Setting("Folder for progress and state of one job")] = (
        "/var/lib/pulsar-rebalancer/checkpoint"
    )
    trigger_ms: Annotated[
        int,
        Setting(
            "Interval between the starts of two micro-batches; 0 = as soon as there are records",
            "ms",
            ge=0,
            le=3_600_000,
        ),
    ] = 0
    max_records_per_batch: Annotated[
        int, Setting("Maximum number of records in one micro-batch", ge=1, le=1_000_000)
    ] = 5_000
    #: Most bytes of a micro-batch from files or Pulsar; a single larger record still passes.
    #: Kafka has no such limit: large records wait on disk.
    max_bytes_per_batch: int = 134_217_728
    fail_on_data_loss: Annotated[
        bool,
        Setting(
            "Stop if telemetry was deleted before it was read; false = continue with the oldest "
            "record"
        ),
    ] = True
    read_tasks: Annotated[
        int,
        Setting(
            "Number of tasks that read a micro-batch from files or Pulsar and decode it, with "
            "several state partitions; on Kafka, the topic's partitions are their number. One "
            "state partition has one task for everything",
            ge=1,
            le=256,
        ),
    ] = 2
    shuffle_partitions: Annotated[
        int | Literal["auto"],
        Setting(
            "Number of state partitions; clusters are distributed over them. Fixed in the "
            "checkpoint; auto: at the first start, the cores of a local master, but at most the "
            "clusters that the newest telemetry names",
            ge=1,
            le=1_000,
        ),
    ] = 1
    warm_start_minutes: Annotated[
        int | Literal["auto"],
        Setting(
            "How much telemetry a new checkpoint reads without publishing, where a job has decided "
            "before; auto = what averages and evidence need, 0 = none",
            "min",
            ge=0,
            le=44_640,
        ),
    ] = "auto"
    master: Annotated[
        str, Setting("Spark master: local[threads,task attempts], spark://…, k8s://…")
    ] = "local[2,3]"
    environment: Annotated[
        str,
        Setting(
            "Archive with the Python packages for remote workers (rebalancer ship); empty = "
            "installed there"
        ),
    ] = ""
    driver_memory: Annotated[
        str, Setting("Heap size of Spark's driver, in Java's format (1g, 800m)")
    ] = "1g"
    start_timeout_ms: Annotated[
        int,
        Setting(
            "How long the job tries to start, or to go on, if Spark's Python workers do not "
            "answer: the machine is busy",
            "ms",
            ge=0,
            le=86_400_000,
        ),
    ] = 600_000
    #: Least number of attempts to start, even after `start_timeout_ms`.
    start_attempts: int = 3
    progress_file: Annotated[
        str, Setting("JSON Lines file that gets one line per micro-batch; empty = none")
    ] = ""
    #: Size at which spark.log and the progress file become an older file; three of each are kept.
    log_bytes: int = 16_777_216
    jars: JarSettings = JarSettings()
    #: The topics of the job; processes without Spark share them.
    connections: Connections = Connections()

    @property
    def partitions(self) -> int:
        """Number of state partitions; 1 as long as `auto` is not resolved (`first_start`)."""
        return 1 if self.shuffle_partitions == "auto" else self.shuffle_partitions


def check_master_form(job: JobSettings) -> None:
    """Raises SettingsError for a master that Spark does not know."""
    if _MASTER.fullmatch(job.master) is None:
        raise SettingsError(
            [
                f"job.master: {job.master!r} is not a master of Spark; write local[2,3], "
                "spark://host:7077, k8s://https://host:443 or yarn"
            ]
        )


def local_path(text: str) -> Path | None:
    """Returns the file or folder of this machine that a setting names; None for a remote URL or an
    empty setting.
    """
    parts = urlsplit(text)
    if not text or parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else text).absolute()


def uses_kafka(topics: Topics) -> bool:
    """True if any topic is on Kafka."""
    return any(topic.scheme == "kafka" for _, topic in topics.named())
