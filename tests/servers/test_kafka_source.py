"""Records on a Kafka topic without our envelope."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.wire.raw_broker_reports import SourceSettings
from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import eager, uneven
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import Raw, put_raw, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


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

    drain(spark, job_on(places, tmp_path, source=SourceSettings("raw")), engine)

    expected = replayed(lines, engine)
    assert (values(places.commands), values(places.rounds)) == (
        expected["commands"],
        expected["rounds"],
    )
    assert expected["commands"] != []
    rejected = sorted(
        (json.loads(value) for value in values(places.rejected)), key=lambda one: int(one["offset"])
    )
    assert {(one["topic"], one["partition"]) for one in rejected} == {(str(places.telemetry), 0)}
    assert [(one["offset"], one["code"]) for one in rejected] == [
        (5, "broker-empty"),
        (6, "not-json"),
        (7, "missing-field"),
        (8, "broker-empty"),
    ]

    words = set_words({"source.format": "raw", "topics.telemetry": places.telemetry})
    outside = rebalancer("replay", "--from-topic", places.telemetry, "--json", *words)
    assert outside.json["records"] == len(lines) + len(bad) + len(withdrawn)
    done = rebalancer("record", tmp_path / "copy.jsonl", *words)
    assert done.code == 0, done.err
    copied = (tmp_path / "copy.jsonl").read_bytes().splitlines()
    again = replayed(copied, engine)
    assert (again["commands"], again["rounds"]) == (expected["commands"], expected["rounds"])
    assert [json.loads(value)["code"] for value in again["rejected"]] == [
        one["code"] for one in rejected
    ]
