"""Two jobs on one control topic of a real Kafka: `execute` refuses what the older one commands, and
`doctor` says that there are two.
"""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.addresses import Connections
from streaming.job import run_job
from streaming.settings import JobSettings
from tests.servers.execute_once import execute_once
from tests.servers.test_kafka_job import topics
from tests.spark.workshop import eager, uneven
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def epoch_of_drain(spark: SparkSession, job: JobSettings) -> int:
    """Works off the telemetry there is; the epoch it told at the start."""
    told: list[str] = []
    run_job(job, eager(), drain=True, session=spark, log=told.append)
    return int(told[0].removeprefix("epoch ").partition(":")[0])


def words(job: JobSettings) -> list[str]:
    places = job.connections.topics
    return set_words({f"topics.{one.name}": getattr(places, one.name) for one in fields(places)})


def doctor(job: JobSettings) -> tuple[str, str]:
    """What it says about epochs to the job of this checkpoint."""
    found = rebalancer(
        "doctor",
        "--no-spark-start",
        "--json",
        "--set",
        f"job.checkpoint={job.checkpoint}",
        *words(job),
    ).json["findings"]
    return next((one["status"], one["text"]) for one in found if one["check"] == "epochs")


def test_the_older_of_two_jobs_on_one_control_topic_is_refused(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    older = JobSettings(
        checkpoint=str(tmp_path / "older"),
        warm_start_minutes=0,
        connections=Connections(topics=topics(kafka, "two-jobs")),
    )
    newer = replace(older, checkpoint=str(tmp_path / "newer"))
    lines = uneven(8)

    put(older.connections.topics.telemetry, lines[: len(lines) // 2])
    assert (epoch_of_drain(spark, older), epoch_of_drain(spark, newer)) == (1, 2)
    assert doctor(newer)[0] == "ok"
    put(older.connections.topics.telemetry, lines[len(lines) // 2 :])
    assert epoch_of_drain(spark, older) == 1

    status, text = doctor(older)
    assert (status, "executors refuse commands" in text) == ("fail", True)
    status, text = doctor(newer)
    assert (status, "two jobs have written" in text) == ("warn", True)

    done = execute_once(tmp_path / "state", "--json", *words(older))
    assert done.code == 0, done.err
    reasons = {
        one["command_id"]: (one["status"], one["reason"].partition(":")[0])
        for one in map(json.loads, done.out.splitlines())
    }
    epochs = {
        one["id"]: one["epoch"]
        for one in map(json.loads, values(older.connections.topics.commands))
    }
    assert set(epochs.values()) == {1, 2}
    # Those of the newer job are not refused for whose they are; they are as old as the telemetry of
    # this test.
    assert reasons == {
        command: ("refused", "older-epoch") if epoch == 1 else ("expired", "expired")
        for command, epoch in epochs.items()
    }
