"""A new checkpoint on a Pulsar topic on which another job has decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.servers.test_kafka_warm_start import SECOND_EPOCH
from tests.servers.test_pulsar_job import topics
from tests.spark.workshop import eager, recording
from tools.servers.pulsar_cluster import PulsarCluster
from tools.servers.pulsar_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


@pytest.mark.parametrize("partitions", [0, 3])
def test_what_was_there_is_folded_and_not_published(
    spark: SparkSession, pulsar: PulsarCluster, tmp_path: Path, partitions: int
) -> None:
    places = topics(pulsar, f"warm-{partitions}", partitions)
    lines = recording("modular-broker-killed")
    put(pulsar, places.telemetry, lines[:120])
    drain(spark, job_on(places, tmp_path / "older"), eager("avg"))
    before = {kind: values(pulsar, getattr(places, kind)) for kind in ("commands", "rounds")}
    newer = replace(job_on(places, tmp_path / "newer"), max_records_per_batch=50)

    put(pulsar, places.telemetry, lines[120:150])
    warming = drain(spark, newer, eager())
    assert sum(batch.records for batch in warming) == 150
    assert all(batch.warming for batch in warming)
    put(pulsar, places.telemetry, lines[150:])
    assert not any(batch.warming for batch in drain(spark, newer, eager()))

    expected = replayed(lines, SECOND_EPOCH, 150)
    for kind, older in before.items():
        found = values(pulsar, getattr(places, kind))
        assert sorted(found) == sorted([*older, *expected[kind]])
    assert len(expected["rounds"]) > 1
