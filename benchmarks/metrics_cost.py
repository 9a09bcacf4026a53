"""`python -m benchmarks.metrics_cost`: what metrics add to a micro-batch of the job.

Runs of the job over the same passes, alternately without and with metrics, in one Spark session:
the ratios of each pair of runs, by wall time and by the CPU time of this process, Java and the
Python workers, which other load on the machine affects less. Then the code of the metrics itself,
by CPU time, next to the stateful function's work on the same micro-batches, without Spark.
"""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from pyspark.sql import Row, SparkSession

from benchmarks.figures import Sample, sample, say
from benchmarks.fleet import CLUSTER, Fleet
from benchmarks.micro_batches import leave_if_stopped, session, written
from benchmarks.options import number, options
from benchmarks.plain import SETTINGS
from sinks.metrics.http_server_and_probes import Liveness
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.topic_settings import Connections, file_topic, file_topic_uri
from sinks.wire.record_decoding import WireLimits
from strategies.cluster.cluster_state import InMemoryStore
from strategies.fold.engine import Engine
from streaming.job import run_job
from streaming.job_metrics import JobMetrics
from streaming.outputs.counts_of_micro_batch import BatchTally, Written, read_facts
from streaming.pack_and_decode_records import reading
from streaming.processor import FoldNotes, fold, newest_accepted_ms
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from tests.topic_uris import topics_of

STRATEGY = "steady"
ON = MetricsSettings("127.0.0.1:0")


@dataclass(frozen=True, slots=True)
class MetricsCost:
    """`off_ms`, `on_ms`: wall time per micro-batch. `wall`, `cpu`: ratios of the pairs of runs;
    the former of the quicker quartile's end.
    `work_ms`: CPU time of the stateful function per micro-batch without metrics; `facts_ms`,
    `driver_ms`: that of the metrics in the function and in the driver.
    """

    brokers: int
    off_ms: Sample
    on_ms: Sample
    wall: Sample
    cpu: Sample
    work_ms: float
    facts_ms: float
    driver_ms: float

    def __str__(self) -> str:
        added = 100 * (self.facts_ms + self.driver_ms) / self.work_ms
        return (
            f"{self.brokers:,} brokers: {self.off_ms} ms per micro-batch without metrics, "
            f"{self.on_ms} ms with; ratios of pairs: wall time {_ratio(self.wall)}, CPU time "
            f"{_ratio(self.cpu)}. CPU of the stateful function {self.work_ms:.1f} ms; metrics "
            f"{self.facts_ms:.2f} ms in it and {self.driver_ms:.2f} ms in the driver: {added:.2f} %"
        )


class Timed(NamedTuple):
    """A run: wall time of each micro-batch (ms), and CPU time of all processes (s)."""

    batch_ms: list[float]
    cpu_s: float


def measure(
    spark: SparkSession, fleet: Fleet, passes: int, pairs: int, folder: Path
) -> MetricsCost:
    """`pairs` of runs over `passes` micro-batches each, after two more of which nothing counts."""
    written(folder / "telemetry", fleet, 2 + passes)
    both: list[Mapping[MetricsSettings, Timed]] = []
    for pair in range(-1, pairs):
        # In turn first, because the second of two runs finds a warmer machine.
        runs = {}
        for metrics in (METRICS_OFF, ON) if pair % 2 else (ON, METRICS_OFF):
            place = folder / f"{pair}-{bool(metrics.listen)}"
            runs[metrics] = _run(spark, fleet, metrics, folder / "telemetry", place)
        both.append(runs)
    both = both[1:]  # the first pair warms Java up
    return MetricsCost(
        fleet.brokers,
        sample([one for runs in both for one in runs[METRICS_OFF].batch_ms]),
        sample([one for runs in both for one in runs[ON].batch_ms]),
        sample([_quick(runs[ON]) / _quick(runs[METRICS_OFF]) for runs in both]),
        sample([runs[ON].cpu_s / runs[METRICS_OFF].cpu_s for runs in both]),
        *_own_ms(fleet, passes),
    )


def _quick(run: Timed) -> float:
    """The quartile of the quick micro-batches (ms), which other load has disturbed least."""
    return quantiles(run.batch_ms, n=4)[0]


def _ratio(pairs: Sample) -> str:
    return f"{pairs.median:.3f} ({pairs.low:.3f}–{pairs.high:.3f})"


def _run(
    spark: SparkSession, fleet: Fleet, metrics: MetricsSettings, telemetry: Path, folder: Path
) -> Timed:
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

    settings, before = SETTINGS[STRATEGY], _cpu_s()
    done = run_job(job, settings, drain=True, on_progress=report, session=spark, metrics=metrics)
    leave_if_stopped(done.stopped_by)
    return Timed(took[2:], _cpu_s() - before)


def _cpu_s() -> float:
    """CPU time (s) of this process and all below it; of those that ended, once they were waited
    for. Needs Linux.
    """
    parents, times = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text("utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(file.parent.name)] = int(fields[1])
        times[int(file.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while found := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return sum(times[one] for one in ours) / os.sysconf("SC_CLK_TCK")


def _own_ms(fleet: Fleet, passes: int) -> tuple[float, float, float]:
    """CPU time (ms) per micro-batch: reading and deciding, facts, metrics of the driver."""
    engine, store, read_rows = Engine(SETTINGS[STRATEGY]), InMemoryStore(), reading(WireLimits())
    measured = JobMetrics(CollectorRegistry(), 0, Liveness(60, ""))
    times = []
    for one in range(2 + passes):
        rows = [
            Row(topic="t", partition=0, offset=place, value=value, size=len(value))
            for place, value in enumerate([*fleet.reports(one), fleet.sweep(one)])
        ]
        begin = time.process_time()
        records = list(read_rows(rows))
        seen = FoldNotes()
        outputs = list(fold(engine, records, store, seen=seen))
        decided = time.process_time()
        tally = BatchTally(per_broker=ON.per_broker)
        tally.add(CLUSTER, outputs, newest_accepted_ms(seen.brokers, store))
        value = tally.value()
        tallied = time.process_time()
        facts = (read_facts(value.decode()),)
        measured.take(BatchProgress(1, "", len(rows), 0, 1, {}, 1, Written(), facts=facts))
        times.append((decided - begin, tallied - decided, time.process_time() - tallied))
    work, own, driver = (1000 * median(part) for part in zip(*times[2:], strict=True))
    return work, own, driver


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
