"""Where a new checkpoint begins to read a Kafka topic, how much a micro-batch takes, and records
without our envelope.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.addresses import Connections
from sinks.topics.kafka.settings import KafkaSettings
from sinks.wire.broker_reports import SourceSettings
from streaming.settings import JobSettings
from tests.replayed import replayed
from tests.servers.job_stories import drain
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import eager, uneven
from tests.unit.command_line import rebalancer
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import Raw, put, put_raw, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def time_of(line: bytes) -> int:
    return int(json.loads(line)["ts"])


def test_latest_leaves_out_what_was_there_before_and_a_micro_batch_takes_no_more_than_it_may(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, engine, lines = topics(kafka, "latest"), eager(), uneven(8)
    settings = KafkaSettings(start="latest")
    job = JobSettings(
        checkpoint=str(tmp_path / "checkpoint"),
        max_records_per_batch=6,
        connections=Connections(topics=places, kafka=settings),
    )
    put(places.telemetry, lines[:12])
    assert drain(spark, job, engine) == []
    put(places.telemetry, lines[12:])
    assert [batch.records for batch in drain(spark, job, engine)] == [6, 6, 6, 2]
    assert values(places.rounds) == replayed(lines[12:], engine)["rounds"] != []


def test_a_time_begins_with_the_first_record_that_is_not_older(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, engine, lines = topics(kafka, "since"), eager(), uneven(6)
    put(places.telemetry, lines, [time_of(line) for line in lines])
    settings = KafkaSettings(start=str(time_of(lines[8])))
    drain(
        spark,
        JobSettings(
            checkpoint=str(tmp_path / "checkpoint"),
            connections=Connections(topics=places, kafka=settings),
        ),
        engine,
    )
    assert values(places.rounds) == replayed(lines[8:], engine)["rounds"] != []
    assert values(places.rejected) == []


def bare(line: bytes) -> Raw:
    """A broker's report as the broker prints it, named by its key and the record's time; what is no
    report stays as it is.
    """
    tree = json.loads(line)
    if tree["kind"] != "load-report":
        return Raw(line, tree["cluster"])
    return Raw(
        json.dumps(tree["report"]).encode(), f"{tree['cluster']}/{tree['broker']}", {}, tree["ts"]
    )


def test_raw_reports_decide_as_those_in_our_envelope(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, engine, lines = topics(kafka, "raw"), eager(), uneven(6)
    records = [bare(line) for line in lines]
    named_by_headers = replace(
        records[4],
        key=None,
        headers={"cluster": b"c", "broker": json.loads(lines[4])["broker"].encode()},
    )
    bad = [
        Raw(records[0].value, "c"),
        Raw(b"nonsense", "c/b:1"),
        Raw(b"{}", "c/b:1"),
        Raw(None, "c"),
    ]
    # A null withdraws what a broker said; of one that said nothing, nothing.
    withdrawn = [Raw(None, "c/never-seen:1", at=json.loads(lines[4])["ts"])]
    put_raw(places.telemetry, [*records[:4], named_by_headers, *bad, *withdrawn, *records[5:]])

    job = JobSettings(
        checkpoint=str(tmp_path / "checkpoint"),
        connections=Connections(topics=places, source=SourceSettings("raw")),
    )
    drain(spark, job, engine)

    expected = replayed(lines, engine)
    assert (values(places.commands), values(places.rounds)) == (
        expected["commands"],
        expected["rounds"],
    )
    assert expected["commands"] != []
    rejected = sorted(
        (json.loads(value) for value in values(places.rejected)), key=lambda one: int(one["offset"])
    )
    assert [(one["offset"], one["code"]) for one in rejected] == [
        (5, "broker-empty"),
        (6, "not-json"),
        (7, "missing-field"),
        (8, "broker-empty"),
    ]

    outside = rebalancer(
        "replay", "--from-topic", places.telemetry, "--set", "source.format=raw", "--json"
    )
    assert outside.json["records"] == len(lines) + len(bad) + len(withdrawn)
    done = rebalancer(
        "record",
        tmp_path / "copy.jsonl",
        "--set",
        "source.format=raw",
        "--set",
        f"topics.telemetry={places.telemetry}",
    )
    assert done.code == 0, done.err
    copied = (tmp_path / "copy.jsonl").read_bytes().splitlines()
    again = replayed(copied, engine)
    assert (again["commands"], again["rounds"]) == (expected["commands"], expected["rounds"])
    assert [json.loads(value)["code"] for value in again["rejected"]] == [
        one["code"] for one in rejected
    ]
