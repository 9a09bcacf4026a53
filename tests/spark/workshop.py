"""A folder with topics and a checkpoint, telemetry to put in, runs of the job, and what the plain
loop makes of the same records.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.topics.topic_settings import Connections, file_topic_uri
from strategies.fold.engine import EngineSettings
from streaming.job import run_job
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.state.forget_clusters import ForgetPolicy
from tests.replayed import Published
from tests.telemetry_lines import load_report, sweep
from tests.topic_uris import topics_of
from tools.processes import real_job


@dataclass(frozen=True)
class Drained:
    """What a run of the job told: its micro-batches, and its lines for people."""

    progress: list[BatchProgress]
    said: list[str]


def a_job(checkpoint: Path, /, **settings: Any) -> JobSettings:
    """`settings`: of the job, and of its connections."""
    ways = {field.name for field in fields(Connections)} & settings.keys()
    connections = Connections(**{way: settings.pop(way) for way in ways})
    # On a busy machine Spark's workers may need more attempts than the default.
    usual: dict[str, Any] = {"checkpoint": str(checkpoint), "start_attempts": 20}
    return JobSettings(connections=connections, **usual | settings)


@dataclass(frozen=True)
class Workshop:
    """Everything one run of the job needs, in a folder of its own."""

    folder: Path

    def job(self, **settings: Any) -> JobSettings:
        uris = {name: self.uri(name) for name in ("telemetry", *KINDS, "outcomes")}
        return a_job(self.checkpoint, **{"topics": topics_of(**uris)} | settings)

    def drain(
        self,
        spark: SparkSession,
        engine: EngineSettings | None = None,
        *,
        metrics: MetricsSettings = METRICS_OFF,
        forget_policy: ForgetPolicy = ForgetPolicy(),
        **settings: Any,
    ) -> Drained:
        """Runs the job over all present records; `settings`: see `job`."""
        told = Drained([], [])
        result = run_job(
            self.job(**settings),
            engine or eager(),
            drain=True,
            session=spark,
            on_progress=told.progress.append,
            log=told.said.append,
            metrics=metrics,
            forget_policy=forget_policy,
        )
        assert result.stopped_by == "drained"
        return told

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def uri(self, topic: str) -> str:
        return file_topic_uri(self.folder / topic)

    def put(self, lines: Sequence[bytes]) -> None:
        with FileTopicWriter(self.folder / "telemetry") as writer:
            writer.append(lines)

    def published(self) -> Published:
        return {
            kind: [record.value for record in FileTopicReader(self.folder / kind).read()[0]]
            for kind in KINDS
        }

    def since(self, before: Published) -> Published:
        return {kind: values[len(before[kind]) :] for kind, values in self.published().items()}

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(value) for value in self.published()[kind]]

    def expected(self, engine: EngineSettings | None = None) -> Published:
        """What the plain loop publishes of the telemetry topic: the reference."""
        uri = self.uri("telemetry")
        records, _ = FileTopicReader(self.folder / "telemetry", uri).read()
        loop = PlainLoop(engine or eager())
        rows = [
            row
            for record in records
            for row in loop.feed(record.position, record.value, record.size)
        ]
        return {kind: [row.value for row in rows if row.kind == kind] for kind in KINDS}


def by_kind_and_cluster(published: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
    """Records in an order that does not depend on how clusters are mixed: between clusters there is
    none.
    """
    return {
        kind: sorted(values, key=lambda value: str(json.loads(value)["cluster"]))
        for kind, values in published.items()
    }


def eager(strategy: str = "threshold") -> EngineSettings:
    """Settings under which small differences already make commands, so that there is something to
    compare.
    """
    return real_job.eager(strategy)


def in_epoch(engine: EngineSettings, epoch: int) -> EngineSettings:
    return replace(engine, round=replace(engine.round, epoch=epoch))


def side_by_side(names: Iterable[str], sweeps: int, start_s: float = 0) -> list[bytes]:
    """The logs of several clusters, merged by time."""
    clusters = [uneven(sweeps, name, start_s=start_s) for name in names]
    return [line for some in zip(*clusters, strict=True) for line in some]


def uneven(sweeps: int, cluster: str = "c", start_s: float = 0) -> list[bytes]:
    """Sweeps 20 s apart over three brokers of which the first carries most; `start_s`: after T0."""
    names = [f"b{i}:8080" for i in range(3)]
    lines = []
    for number in range(1, sweeps + 1):
        at = number * 20
        lines += [
            load_report(
                name,
                start_s + at - len(names) + i,
                {
                    f"t/{name[:2]}/0x{j:08x}_0x{j + 1:08x}": 300.0 / (1 + i) + j + number
                    for j in range(4)
                },
                60.0 / (1 + i),
                cluster=cluster,
            )
            for i, name in enumerate(names)
        ]
        lines.append(sweep(start_s + at, *names, cluster=cluster))
    return lines
