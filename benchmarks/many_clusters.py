"""`python -m benchmarks.many_clusters`: how the job scales with the number of Pulsar clusters on
one Kafka topic, with partitions of state, and with Spark in one process or on two workers.

Each row is one run of `rebalancer run --drain` with a checkpoint of its own, over the same records
as the other rows of its size: passes over all clusters, whose brokers report side by side. The
first half of the records is not counted, in which Java compiles and new clusters move more than
later; all runs have as many records. Compare rows of one run: the machine is shared.
"""

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count, cycle, islice, product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.figures import folder_bytes, say, table
from benchmarks.fleet import CLUSTER, Fleet
from benchmarks.kafka_records import KeyedPublisher
from benchmarks.options import number, options
from benchmarks.processes import proportional_bytes

if TYPE_CHECKING:
    from tools.processes.real_job import RealJob
    from tools.servers.kafka_broker import KafkaBroker
    from tools.servers.spark_cluster import SparkCluster

_OUTPUTS = ("commands", "rounds", "rejected", "outcomes")
_NAMED = f'"cluster":"{CLUSTER}"'.encode()
_MIB = 2**20
_LOOK_S = 0.5
_LONGEST_S = 1_800.0
_HOMES = ("one process", "two workers")
_TOPIC_PARTITIONS = 4
#: Clusters with different figures: more than compression looks back over.
_DIFFERENT = 64
#: The job's default.
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. `records`: fewest counted ones of a run, after as many that are not;
    `passes`: fewest passes over the most clusters that these make.
    """

    clusters: tuple[int, ...] = (10, 100, 1_000)
    partitions: tuple[int, ...] = (1, 2, 4)
    homes: tuple[str, ...] = _HOMES
    brokers: int = 50
    bundles: int = 20
    records: int = 51_000
    passes: int = 4

    @property
    def counted(self) -> int:
        """Number of records that count, of every run: Java compiles for minutes, so a shorter run
        would be a slower one.
        """
        return max(self.records, self.passes * max(self.clusters) * (self.brokers + 1))


@dataclass(frozen=True, slots=True)
class Scale:
    """One run. `batch_ms`: median of the counted micro-batches; `memory_mib`: the most that all
    processes had together, shared pages once; `state_mib`: files of Spark's state; `commands`: per
    round that counts.
    """

    clusters: int
    partitions: int
    home: str
    reports_per_second: float
    ms_per_report: float
    batch_ms: float
    memory_mib: float
    state_mib: float
    commands: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table, ratios and a chart (Markdown) on standard output, what it is doing on
    standard error.
    """
    chosen = _options().parse_args(arguments)
    plan = Plan(
        tuple(chosen.clusters),
        tuple(chosen.partitions),
        tuple(chosen.homes),
        chosen.brokers,
        chosen.bundles,
        chosen.records,
        chosen.passes,
    )
    rows: list[Scale] = []
    code = 0
    try:
        for row in measured(plan):
            say(f"{row.ms_per_report:.3f} ms per report")
            rows.append(row)
    except KeyboardInterrupt:
        say(f"interrupted: {len(rows)} complete runs are printed")
        code = 130
    print(json.dumps({"v": 1, "runs": list(map(asdict, rows))}) if chosen.json else text(rows))
    sys.exit(code)


def measured(plan: Plan) -> Iterator[Scale]:
    """One row per run. Starts Kafka and the Spark cluster, and stops them."""
    from tools.servers.kafka_broker import kafka_broker
    from tools.servers.spark_cluster import spark_cluster

    with tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder, ExitStack() as stack:
        place = Path(folder)
        (place / "kafka").mkdir()
        kafka = stack.enter_context(kafka_broker(place / "kafka"))
        workers = (
            stack.enter_context(spark_cluster(place / "spark", workers=2, java_options=""))
            if _HOMES[1] in plan.homes
            else None
        )
        telemetry = {clusters: _published(kafka, plan, clusters) for clusters in plan.clusters}
        # Numbers of clusters are compared, and the machine's speed changes within an hour.
        for home, partitions, clusters in product(plan.homes, plan.partitions, plan.clusters):
            run = _Run(place / f"{clusters}-{home[:3]}-{partitions}", clusters, partitions)
            spark = workers if home == _HOMES[1] else None
            yield _measure(run, _topics(kafka, run, telemetry[clusters]), plan, spark)


def records(clusters: int, fleet: Fleet) -> Iterator[tuple[bytes, bytes]]:
    """Key and value, pass after pass: the reports of all clusters side by side, then their
    sweeps. Clusters have figures of their own; with equal ones, their states would compress to
    nothing.
    """
    names = [f"cluster-{index:04}".encode() for index in range(clusters)]
    fleets = [replace(fleet, seed=fleet.seed + index) for index in range(min(clusters, _DIFFERENT))]
    for number_ in count():
        for reports in zip(*(one.reports(number_) for one in fleets), strict=True):
            yield from zip(names, map(_of, names, cycle(reports)), strict=True)
        sweeps = [one.sweep(number_) for one in fleets]
        yield from zip(names, map(_of, names, cycle(sweeps)), strict=True)


def text(rows: Sequence[Scale]) -> str:
    """For people: a table, what a report costs with more clusters, and a chart."""
    shown = [
        {
            "clusters": f"{row.clusters:,}",
            "Spark": row.home,
            "partitions": row.partitions,
            "reports/s": f"{row.reports_per_second:,.0f}",
            "ms/report": f"{row.ms_per_report:.3f}",
            "batch ms": f"{row.batch_ms:,.0f}",
            "memory MiB": f"{row.memory_mib:,.0f}",
            "state MiB": f"{row.state_mib:,.1f}",
            "commands/round": f"{row.commands:.1f}",
        }
        for row in rows
    ]
    return "\n\n".join([table("Runs", shown), "\n".join(_ratios(rows)), chart(rows)])


def chart(rows: Sequence[Scale]) -> str:
    """Reports per second by number of clusters, one line per Spark and partitions, as a chart that
    Markdown viewers draw.
    """
    sizes = list(dict.fromkeys(row.clusters for row in rows))
    lines = [
        f"    line [{', '.join(f'{row.reports_per_second:.0f}' for row in some)}]"
        for some in _lines(rows).values()
        if len(some) == len(sizes)
    ]
    return "\n".join(
        [
            "```mermaid",
            "xychart-beta",
            '    title "Reports per second"',
            f'    x-axis "clusters" [{", ".join(map(str, sizes))}]',
            '    y-axis "reports/s"',
            *lines,
            "```",
            "Lines, in order: "
            + "; ".join(f"{home}, {partitions} partitions" for home, partitions in _lines(rows)),
        ]
    )


def _lines(rows: Sequence[Scale]) -> Mapping[tuple[str, int], list[Scale]]:
    found: dict[tuple[str, int], list[Scale]] = {}
    for row in rows:
        found.setdefault((row.home, row.partitions), []).append(row)
    return found


def _ratios(rows: Sequence[Scale]) -> Iterator[str]:
    for (home, partitions), some in _lines(rows).items():
        first, last = some[0], some[-1]
        yield (
            f"{home}, {partitions} partitions: a report of {last.clusters:,} clusters costs "
            f"{last.ms_per_report / first.ms_per_report:.2f} times one of {first.clusters:,}"
        )


def _of(cluster: bytes, record: bytes) -> bytes:
    return record.replace(_NAMED, b'"cluster":"' + cluster + b'"', 1)


def _published(kafka: "KafkaBroker", plan: Plan, clusters: int) -> str:
    number_ = 2 * plan.counted
    say(f"{number_:,} records of {clusters:,} clusters are published")
    topic = kafka.topic(f"telemetry-{clusters}", _TOPIC_PARTITIONS)
    with KeyedPublisher(topic) as publisher:
        fleet = Fleet(plan.brokers, plan.bundles)
        publisher.publish_keyed(islice(records(clusters, fleet), number_))
    return topic


@dataclass(frozen=True, slots=True)
class _Run:
    folder: Path
    clusters: int
    partitions: int


def _measure(
    run: _Run, topics: Mapping[str, str], plan: Plan, spark: "SparkCluster | None"
) -> Scale:
    from tools.processes.real_job import RealJob, with_usual_java

    home = _HOMES[0] if spark is None else _HOMES[1]
    say(f"{run.clusters:,} clusters, {home}, {run.partitions} partitions of state")
    progress = run.folder / "progress.jsonl"
    words = _words(run, topics, plan, progress)
    environment: Mapping[str, str] = with_usual_java()
    if spark is not None:
        words += _on_workers(run, spark)
        environment = {**environment, **spark.environment}
    with (
        RealJob(run.folder, "avg", environment=environment, usual=True) as job,
        _most_memory(job, spark) as most,
    ):
        job.drain(*words, seconds=_LONGEST_S)
    batches = [json.loads(line) for line in progress.read_text("utf-8").splitlines()]
    counted = _counted(batches, plan.counted)
    total, took_ms = (sum(one[name] for one in counted) for name in ("records", "took_ms"))
    written = [one["written"] for one in counted]
    state = run.folder / "checkpoint" / "state"
    return Scale(
        run.clusters,
        run.partitions,
        home,
        total / took_ms * 1e3,
        took_ms / total,
        median(one["took_ms"] for one in counted),
        max(most) / _MIB,
        folder_bytes(state) / _MIB,
        sum(one["commands"] for one in written) / max(1, sum(one["rounds"] for one in written)),
    )


def _counted(batches: Sequence[Mapping[str, Any]], skipped: int) -> list[Mapping[str, Any]]:
    """The micro-batches after the first `skipped` records."""
    passed, counted = 0, []
    for one in batches:
        if passed >= skipped:
            counted.append(one)
        passed += one["records"]
    if not counted:
        raise AssertionError(f"{passed} records were processed, which leaves none to count")
    return counted


def _topics(kafka: "KafkaBroker", run: _Run, telemetry: str) -> Mapping[str, str]:
    made = {name: kafka.topic(f"{run.folder.name}-{name}") for name in _OUTPUTS}
    return {"telemetry": telemetry, **made}


def _words(run: _Run, topics: Mapping[str, str], plan: Plan, progress: Path) -> list[str]:
    settings = {
        **{f"topics.{name}": uri for name, uri in topics.items()},
        "job.shuffle_partitions": run.partitions,
        "job.max_records_per_batch": min(_BATCH, max(1, plan.records // 4)),
        "job.progress_file": progress,
        "round.interval_ms": 60_000,
    }
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def _on_workers(run: _Run, spark: "SparkCluster") -> list[str]:
    from streaming.cluster.shipping import write_environment

    archive = run.folder.parent / "environment.tar.gz"
    if not archive.exists():
        write_environment(archive)
    return ["--master", spark.url, "--set", f"job.environment={archive}"]


@contextmanager
def _most_memory(job: "RealJob", spark: "SparkCluster | None") -> Iterator[list[float]]:
    """Looks at the memory of all processes of a run until the end."""
    most, done = [0.0], threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_S):
            pids = [
                *job.aim(),
                *(pid for one in (spark.workers if spark else ()) for pid in one.started()),
            ]
            most.append(sum(map(proportional_bytes, dict.fromkeys(pids))))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        done.set()
        looking.join()


def _options() -> argparse.ArgumentParser:
    parser = options("benchmarks.many_clusters", __doc__ or "")
    plan = Plan()
    parser.add_argument(
        "--clusters", type=int, nargs="+", metavar="N", default=plan.clusters, help="their numbers"
    )
    parser.add_argument(
        "--partitions", type=int, nargs="+", metavar="N", default=plan.partitions, help="of state"
    )
    parser.add_argument(
        "--homes", nargs="+", choices=_HOMES, default=plan.homes, help="where Spark runs"
    )
    number(parser, "--brokers", plan.brokers, "brokers per cluster")
    number(parser, "--bundles", plan.bundles, "bundles per broker")
    number(parser, "--records", plan.records, "fewest records that count, after as many others")
    number(parser, "--passes", plan.passes, "fewest passes over the most clusters")
    return parser


if __name__ == "__main__":
    main()
