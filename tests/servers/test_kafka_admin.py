"""`rebalancer topics create` and what `rebalancer doctor` says about topics on Kafka."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.addresses import parse_topic
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.topics.topic_admin import topic_facts
from tests.control_topic import TOPICS
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker

pytestmark = pytest.mark.servers


def on(kafka: KafkaBroker, prefix: str, names: Sequence[str] = TOPICS) -> list[str]:
    return set_words(
        {f"topics.{name}": f"kafka://{kafka.address()}/{prefix}-{name}" for name in names}
    )


def findings(kafka: KafkaBroker, prefix: str, folder: Path) -> dict[str, Any]:
    words = [
        "doctor",
        "--no-spark-start",
        "--json",
        "--set",
        f"job.checkpoint={folder}",
        *on(kafka, prefix),
    ]
    return {
        found["check"]: found
        for found in rebalancer(*words).json["findings"]
        if found["check"].startswith("topic ")
    }


def test_missing_topics_are_made_once_and_can_be_seen(kafka: KafkaBroker, tmp_path: Path) -> None:
    before = findings(kafka, "new", tmp_path)
    assert {found["status"] for found in before.values()} == {"fail"}
    assert {found["remedy"] for found in before.values()} == {
        "create it with: rebalancer topics create"
    }
    words = [
        "topics",
        "create",
        "--partitions",
        "3",
        "--retention-hours",
        "2",
        *on(kafka, "new"),
        "--json",
    ]
    assert [one["created"] for one in rebalancer(*words).json["topics"]] == [True] * len(TOPICS)
    assert [one["created"] for one in rebalancer(*words).json["topics"]] == [False] * len(TOPICS)
    facts = topic_facts(
        parse_topic(f"kafka://{kafka.address()}/new-rounds"), kafka_access(KafkaSettings())
    )
    assert facts is not None
    assert (facts.partitions, facts.replicas, facts.compacted) == (3, 1, False)
    assert facts.configs["retention.ms"] == "7200000"
    rejected = topic_facts(
        parse_topic(f"kafka://{kafka.address()}/new-rejected"), kafka_access(KafkaSettings())
    )
    assert rejected is not None
    assert int(rejected.configs["max.message.bytes"]) == 2 * int(facts.configs["max.message.bytes"])
    assert [found["status"] for found in findings(kafka, "new", tmp_path).values()] == ["ok"] * 5


def test_a_compacted_topic_is_a_failure(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.topic("compacted-commands", configs={"cleanup.policy": "compact"})
    found = findings(kafka, "compacted", tmp_path)["topic commands"]
    assert found["status"] == "fail"
    assert "cleanup.policy" in found["remedy"]


def test_a_topic_that_keeps_records_for_minutes_is_a_warning(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    kafka.topic("brief-telemetry", configs={"retention.ms": "600000"})
    found = findings(kafka, "brief", tmp_path)["topic telemetry"]
    assert (found["status"], "for 10 min only" in found["text"]) == ("warn", True)


def test_more_copies_than_brokers_are_refused_with_the_way_out(kafka: KafkaBroker) -> None:
    done = rebalancer("topics", "create", "--replication", "3", *on(kafka, "copies"))
    assert done.code == exit_codes.ERROR
    assert "lower --replication" in done.err


def test_without_kafka_there_is_nothing_to_make() -> None:
    done = rebalancer("topics", "create")
    assert done.code == exit_codes.SETTINGS
    assert "all are folders, which are created on first use" in done.err
