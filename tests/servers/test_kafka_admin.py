"""`rebalancer topics create` and what `rebalancer doctor` says about topics on Kafka."""

from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.topics.topic_admin import TopicFacts, topic_facts
from sinks.topics.topic_settings import parse_topic
from tests.control_topic import TOPICS
from tests.topic_uris import topic_settings
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker

pytestmark = pytest.mark.servers


def on(kafka: KafkaBroker, prefix: str) -> list[str]:
    uris = {name: f"kafka://{kafka.address()}/{prefix}-{name}" for name in TOPICS}
    return set_words(topic_settings(uris))


def findings(kafka: KafkaBroker, prefix: str, folder: Path) -> dict[str, Any]:
    checkpoint = ("--set", f"job.checkpoint={folder}")
    answer = rebalancer("doctor", "--no-spark-start", "--json", *checkpoint, *on(kafka, prefix))
    found = {one["check"]: one for one in answer.json["findings"]}
    return {check: one for check, one in found.items() if check.startswith("topic ")}


def facts(kafka: KafkaBroker, topic: str) -> TopicFacts:
    uri = parse_topic(f"kafka://{kafka.address()}/{topic}")
    found = topic_facts(uri, kafka_access(KafkaSettings()))
    assert found is not None
    return found


def test_missing_topics_are_made_once_and_can_be_seen(kafka: KafkaBroker, tmp_path: Path) -> None:
    before = findings(kafka, "new", tmp_path).values()
    assert {(one["status"], one["remedy"]) for one in before} == {
        ("fail", "create it with: rebalancer topics create")
    }
    words = ["topics", "create", "--json", "--partitions", "3", "--retention-hours", "2"]
    for created in (True, False):
        made = rebalancer(*words, *on(kafka, "new")).json["topics"]
        assert [one["created"] for one in made] == [created] * len(TOPICS)
    rounds, rejected = facts(kafka, "new-rounds"), facts(kafka, "new-rejected")
    assert (rounds.partitions, rounds.replicas, rounds.compacted) == (3, 1, False)
    assert rounds.configs["retention.ms"] == "7200000"
    narrow, wide = (int(one.configs["max.message.bytes"]) for one in (rounds, rejected))
    assert wide == 2 * narrow
    assert [found["status"] for found in findings(kafka, "new", tmp_path).values()] == ["ok"] * 5


@pytest.mark.parametrize(
    ("topic", "configs", "finding"),
    [
        ("commands", {"cleanup.policy": "compact"}, ("fail", "remedy", "cleanup.policy")),
        ("telemetry", {"retention.ms": "600000"}, ("warn", "text", "for 10 min only")),
    ],
    ids=["compacted", "kept for minutes"],
)
def test_a_topic_that_does_not_keep_its_records_is_named(
    kafka: KafkaBroker,
    tmp_path: Path,
    topic: str,
    configs: dict[str, str],
    finding: tuple[str, str, str],
) -> None:
    kafka.topic(f"brief-{topic}", configs=configs)
    found = findings(kafka, "brief", tmp_path)[f"topic {topic}"]
    status, where, words = finding
    assert (found["status"], words in found[where]) == (status, True)


def test_more_copies_than_brokers_are_refused_with_the_way_out(kafka: KafkaBroker) -> None:
    done = rebalancer("topics", "create", "--replication", "3", *on(kafka, "copies"))
    assert done.code == exit_codes.ERROR
    assert "lower --replication" in done.err


def test_without_kafka_there_is_nothing_to_make() -> None:
    done = rebalancer("topics", "create")
    assert done.code == exit_codes.SETTINGS
    assert "all are folders, which are created on first use" in done.err
