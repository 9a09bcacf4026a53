"""What the tests of the streaming job on Kafka and on Pulsar share: a job on the topics of a test,
and ten clusters that it decides about.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.topic_settings import Topics
from strategies.fold.engine import EngineSettings
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from tests.replayed import replayed
from tests.spark.workshop import a_job, by_kind_and_cluster, eager, uneven
from tests.topic_uris import topic_settings
from tools.processes.real_job import EAGER

#: Telemetry of ten clusters.
TEN = {f"cluster-{i}": uneven(5, f"cluster-{i}") for i in range(10)}
#: Settings of a job that begins where another one has decided.
SECOND_EPOCH = replace(eager(), round=replace(eager().round, epoch=2))


def job_on(places: Topics, folder: Path, **settings: Any) -> JobSettings:
    """A job on these topics with a new checkpoint; `settings`: see `a_job`."""
    return a_job(folder / "checkpoint", topics=places, **settings)


def settings_of(places: Topics, folder: Path) -> dict[str, object]:
    """The same for a job as a process, which moves much."""
    return {
        **topic_settings(places),
        **dict(assignment.split("=") for assignment in EAGER),
        "shedding.strategy": "threshold",
        "job.checkpoint": folder / "checkpoint",
    }


def drain(
    spark: SparkSession,
    job: JobSettings,
    engine: EngineSettings,
    metrics: MetricsSettings = METRICS_OFF,
) -> list[BatchProgress]:
    progress: list[BatchProgress] = []
    result = run_job(
        job, engine, drain=True, on_progress=progress.append, session=spark, metrics=metrics
    )
    assert result.stopped_by == "drained"
    return progress


def in_turn() -> list[bytes]:
    """The telemetry of the ten clusters, a record of each after the other."""
    return [line for together in zip(*TEN.values(), strict=True) for line in together]


def each_decided_as_alone(
    engine: EngineSettings, commands: Sequence[bytes], rounds: Sequence[bytes]
) -> None:
    """Fails unless each of the ten clusters has the commands and rounds of its own replay."""
    alone = [replayed(lines, engine) for lines in TEN.values()]
    assert all(one["commands"] for one in alone)
    expected = {
        kind: [value for one in alone for value in one[kind]] for kind in ("commands", "rounds")
    }
    found = {"commands": commands, "rounds": rounds}
    assert by_kind_and_cluster(found) == by_kind_and_cluster(expected)
