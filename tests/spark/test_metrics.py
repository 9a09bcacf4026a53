"""The metrics of the job: counters equal the records on the topics, and without metrics nothing
differs.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from sinks.metrics.http_server_and_probes import Liveness
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from streaming.job_metrics import JobMetrics
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.progress import BatchProgress
from tests.spark.workshop import Workshop, side_by_side, uneven
from tests.topic_uris import topic_settings
from tests.unit.metric_samples import get, samples, scraped
from tests.unit.test_metrics_commands import served
from tools.processes.set_words import set_words
from tools.waiting import eventually

pytestmark = pytest.mark.spark

ON = MetricsSettings("127.0.0.1:0")
PER_BROKER = MetricsSettings("127.0.0.1:0", per_broker=True)


class Measured:
    """Runs of the job whose micro-batches reach one set of metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.batches: list[BatchProgress] = []
        self.liveness = Liveness(60, "a micro-batch")
        self._metrics = JobMetrics(self.registry, 0, self.liveness)

    def drain(
        self, spark: SparkSession, workshop: Workshop, metrics: MetricsSettings, **settings: Any
    ) -> None:
        self.batches = workshop.drain(spark, metrics=metrics, **settings).progress
        for batch in self.batches:
            self._metrics.take(batch)

    def samples(self, name: str) -> Mapping[tuple[str, ...], float]:
        return samples(self.registry, name)


def published(workshop: Workshop) -> dict[str, list[bytes]]:
    """The bytes on the topics, except for the folder, which rejected records name."""
    folder = str(workshop.folder).encode()
    return {
        kind: [value.replace(folder, b"FOLDER") for value in values]
        for kind, values in workshop.published().items()
    }


def telemetry() -> list[bytes]:
    """Two clusters, and records that cannot be used: no JSON, an unknown cluster, a repetition, and
    an unknown kind of a made-up cluster.
    """
    lines = side_by_side(("one", "two"), 7)
    bad = [b"no json", b"{}", lines[0], b'{"v":1,"cluster":"made-up","kind":"x","ts":1}', b"[1]"]
    return [*lines[:20], *bad, *lines[20:], lines[0]]


@pytest.mark.parametrize("partitions", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_counters_are_what_stands_on_the_topics(
    spark: SparkSession, workshop: Workshop, partitions: int
) -> None:
    workshop.put(telemetry())
    measured = Measured()
    measured.drain(
        spark, workshop, PER_BROKER, max_records_per_batch=11, shuffle_partitions=partitions
    )

    rounds, commands, rejected = map(workshop.records, ("rounds", "commands", "rejected"))
    assert len(measured.batches) > 3
    assert len(rejected) > 4
    assert measured.samples("rounds_total") == Counter((one["cluster"],) for one in rounds)
    assert measured.samples("commands_total") == Counter(
        (one["cluster"], one["action"]) for one in commands
    )
    assert measured.samples("rejected_records_total") == Counter((one["code"],) for one in rejected)
    assert measured.samples("skips_total") == Counter(
        (one["cluster"], skip["code"]) for one in rounds for skip in one["skips"]
    )
    assert measured.samples("records_total") == {(): len(telemetry())}
    newest = {one["cluster"]: one for one in rounds}
    assert measured.samples("broker_usage_ratio") == {
        (cluster, broker): usage
        for cluster, one in newest.items()
        for broker, usage in one["usage"].items()
    }
    reports = measured.samples("newest_report_timestamp_seconds")
    assert reports == {(cluster,): one["ts"] / 1000 - 1 for cluster, one in newest.items()}
    assert measured.liveness.not_ready() == ""


def test_metrics_change_no_byte_and_may_be_switched_at_a_restart(
    spark: SparkSession, workshop: Workshop, tmp_path: Path
) -> None:
    lines = telemetry()
    without = Workshop(tmp_path / "without")
    for metrics, some in ((METRICS_OFF, lines[:30]), (ON, lines[30:40]), (METRICS_OFF, lines[40:])):
        measured, plain = Measured(), Measured()
        workshop.put(some)
        without.put(some)
        measured.drain(spark, workshop, metrics, max_records_per_batch=11)
        plain.drain(spark, without, METRICS_OFF, max_records_per_batch=11)
        assert [batch.facts != () for batch in measured.batches] == [
            metrics is ON for _ in measured.batches
        ]
        assert plain.samples("rounds_total") == {}

    assert published(workshop) == published(without)
    assert all(published(without).values())


@pytest.mark.servers
def test_the_command_serves_the_metrics_of_its_job(workshop: Workshop) -> None:
    workshop.put(uneven(3))
    given = {
        **topic_settings({name: workshop.uri(name) for name in ("telemetry", *KINDS)}),
        "job.checkpoint": workshop.checkpoint,
        "log.format": "json",
        "metrics.listen": "127.0.0.1:0",
    }
    with served("run", *set_words(given)) as address:
        assert get(address, "/readyz")[0] == 503
        eventually(lambda: get(address, "/readyz")[0] == 200)
        found = scraped(get(address, "/metrics")[2])
        assert get(address, "/healthz")[0] == 200
    rounds = workshop.records("rounds")
    assert found["pulsar_rebalancer_records_total",] == len(uneven(3))
    assert found["pulsar_rebalancer_rounds_total", "c"] == len(rounds) > 0
    assert found["pulsar_rebalancer_build_info", rounds[0]["version"]] == 1
