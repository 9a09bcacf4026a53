"""The streaming job from Kafka to Kafka: the bytes of the plain replay, whatever the number of
partitions.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.metrics.settings import MetricsSettings
from sinks.topics.topic_settings import Topics
from strategies.errors import SinkError
from streaming.job import run_job
from tests.control_topic import TOPICS
from tests.servers.job_stories import TEN, drain, each_decided_as_alone, in_turn, job_on
from tests.spark.workshop import eager
from tests.topic_uris import topic_of, topics_of
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import everything, put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def topics(kafka: KafkaBroker, name: str, partitions: int = 1) -> Topics:
    """Topics of one test; control topics are partitioned like the telemetry."""
    return topics_of(**{topic: kafka.topic(f"{name}-{topic}", partitions) for topic in TOPICS})


def test_ten_clusters_in_four_partitions_each_decide_as_alone_and_facts_reach_no_topic(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    places, engine = topics(kafka, "ten", 4), eager()
    put(places.telemetry, [*in_turn(), b"nonsense"])
    assert len({one.partition for one in everything(places.telemetry)}) == 4
    job = job_on(places, tmp_path, max_records_per_batch=37, shuffle_partitions=2)
    batches = drain(spark, job, engine, MetricsSettings("127.0.0.1:0"))
    each_decided_as_alone(engine, values(places.commands), values(places.rounds))
    assert batches[-1].behind_records == 0
    assert {one.key for one in everything(places.rounds)} == {*TEN}
    facts = [one for batch in batches for one in batch.facts]
    clusters = [one for some in facts for one in some.clusters]
    assert sum(one.rounds for one in clusters) == len(values(places.rounds))
    assert sum(sum(one.commands.values()) for one in clusters) == len(values(places.commands))
    assert [some.rejected for some in facts if some.rejected] == [{"not-json": 1}]
    assert len(values(places.rejected)) == 1


def test_a_topic_that_is_missing_is_told_before_spark_starts(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    never = topic_of(f"kafka://{kafka.address()}/never-made")
    places = replace(topics(kafka, "missing"), rounds=never)
    told = "never-made: the topic does not exist; create it with: rebalancer topics create"
    with pytest.raises(SinkError, match=told):
        run_job(job_on(places, tmp_path), eager(), drain=True)
