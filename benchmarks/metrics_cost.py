"""`python -m benchmarks.metrics_cost`: what metrics add to a micro-batch of the job.

Runs of the job over the same passes, alternately without and with metrics, in one Spark session.
The ratio is that of the medians of each pair of runs, so that a slower machine affects both. Then
the same micro-batches in this process without Spark, by CPU time: what the facts of the stateful
function and the metrics of the driver cost.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

from prometheus_client import CollectorRegistry
from pyspark.sql import Row, SparkSession

from benchmarks.figures import Sample, sample, say
from benchmarks.fleet import Fleet
from benchmarks.micro_batches import leave_if_stopped, session, written
from benchmarks.options import number, options
from benchmarks.plain import SETTINGS
from sinks.metrics.liveness import Liveness
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.connections import Connections
from sinks.topics.uri import file_topic, file_topic_uri
from sinks.wire.signing import SigningSettings
from sinks.wire.size_limits import WireLimits
from streaming.decode import decoding
from streaming.job import run_job
from streaming.metrics import JobMetrics
from streaming.outputs.facts import FACTS, read_facts
from streaming.outputs.output_counts import Written
from streaming.processor import ClusterProcessor
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.state.store import StoreCache
from tests.spark.state_variables import Spark
from tests.topic_uris import topics_of

STRATEGY = "steady"
ON = MetricsSettings("127.0.0.1:0", per_broker=True)
_MEMORY = 256 * 2**20


@dataclass(frozen=True, slots=True)
class MetricsCost:
    """`off_ms`, `on_ms`: wall time per micro-batch; `ratios`: of the medians of each pair of runs.
    `cpu_ms`: CPU time of the stateful function per micro-batch without metrics; `added_cpu_ms`:
    what metrics add to it, those of the driver included.
    """

    brokers: int
    off_ms: Sample
    on_ms: Sample
    ratios: Sample
    cpu_ms: float
    added_cpu_ms: float

    def __str__(self) -> str:
        return (
            f"{self.brokers:,} brokers: {self.off_ms} ms per micro-batch without metrics, "
            f"{self.on_ms} ms with; ratio of pairs {self.ratios.median:.3f} "
            f"({self.ratios.low:.3f}–{self.ratios.high:.3f}). CPU of the stateful function "
            f"{self.cpu_ms:.1f} ms, of which metrics add {self.added_cpu_ms:.2f} ms"
        )


def measure(
    spark: SparkSession, fleet: Fleet, passes: int, pairs: int, folder: Path
) -> MetricsCost:
    """`pairs` of runs over `passes` micro-batches each, after two more of which nothing counts."""
    written(folder / "telemetry", fleet, 2 + passes)
    off, on, ratios = list[float](), list[float](), list[float]()
    for pair in range(pairs):
        # In turn first, because the second of two runs finds a warmer machine.
        both = {}
        for metrics in (METRICS_OFF, ON) if pair % 2 else (ON, METRICS_OFF):
            place = folder / f"{pair}-{bool(metrics.listen)}"
            both[metrics] = _run(spark, fleet, metrics, folder / "telemetry", place)[2:]
        off += both[METRICS_OFF]
        on += both[ON]
        ratios.append(median(both[ON]) / median(both[METRICS_OFF]))
    cpu, added = _cpu_ms(fleet, passes)
    return MetricsCost(fleet.brokers, sample(off), sample(on), sample(ratios), cpu, added)


def _run(
    spark: SparkSession, fleet: Fleet, metrics: MetricsSettings, telemetry: Path, folder: Path
) -> list[float]:
    topics = topics_of(telemetry=file_topic_uri(telemetry))
    outputs = {
        name: file_topic(folder / name) for name in ("commands", "rounds", "rejected", "outcomes")
    }
    job = JobSettings(
        checkpoint=str(folder / "checkpoint"),
        max_records_per_batch=fleet.brokers + 1,
        max_bytes_per_batch=2**30,
        connections=Connections(topics=replace(topics, **outputs)),
    )
    took: list[float] = []
    measured = JobMetrics(CollectorRegistry(), 0, Liveness(60, ""))

    def report(batch: BatchProgress) -> None:
        took.append(batch.took_ms)
        if metrics.listen:
            measured.take(batch)

    settings = SETTINGS[STRATEGY]
    done = run_job(job, settings, drain=True, on_progress=report, session=spark, metrics=metrics)
    leave_if_stopped(done.stopped_by)
    return took


def _cpu_ms(fleet: Fleet, passes: int) -> tuple[float, float]:
    """CPU time (ms) of the stateful function per micro-batch without metrics, and what they add."""
    batches = [
        [
            Row(topic="t", partition=0, offset=place, value=value, size=len(value))
            for place, value in enumerate([*fleet.reports(one), fleet.sweep(one)])
        ]
        for one in range(2 + passes)
    ]
    off, on = (_processed(batches, metrics) for metrics in (METRICS_OFF, ON))
    added = [with_it - without for without, with_it in zip(off, on, strict=True)]
    return median(off[2:]), median(added[2:])


def _processed(batches: Sequence[Sequence[Row]], metrics: MetricsSettings) -> list[float]:
    processor = ClusterProcessor(
        SETTINGS[STRATEGY],
        SigningSettings(),
        decoding(WireLimits()),
        StoreCache(_MEMORY),
        metrics=metrics,
    )
    processor.init(cast(Any, Spark()))
    measured, took = JobMetrics(CollectorRegistry(), 0, Liveness(60, "")), []
    for batch in batches:
        began = time.process_time()
        rows = processor.handleInputRows(("",), iter(batch), None)
        facts = tuple(read_facts(row.value.decode()) for row in rows if row.kind == FACTS)
        if facts:
            progress = BatchProgress(1, "", len(batch), 0, 1, {}, 1, Written(), facts=facts)
            measured.take(progress)
        took.append(1000 * (time.process_time() - began))
    return took


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one line per size."""
    assert __doc__ is not None
    parser = options("benchmarks.metrics_cost", __doc__)
    parser.add_argument("--brokers", type=int, nargs="+", default=[100, 1_000], metavar="N")
    number(parser, "--passes", 20, "micro-batches per run")
    number(parser, "--pairs", 6, "pairs of runs")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, session(Path(folder)) as spark:
        for brokers in chosen.brokers:
            say(f"{brokers:,} brokers")
            place = Path(folder) / str(brokers)
            cost = measure(spark, Fleet(brokers), chosen.passes, chosen.pairs, place)
            print(json.dumps({"v": 1, **asdict(cost)}) if chosen.json else cost, flush=True)


if __name__ == "__main__":
    main()
