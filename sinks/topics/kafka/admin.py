"""Topics on a Kafka cluster: their configuration, and creating missing ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sinks.topics.kafka.errors import kafka_errors
from sinks.topics.kafka.settings import KafkaAccess
from sinks.topics.uri import TopicUri


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Configuration of a new topic. `replication`: -1 uses the cluster's default; `retention_ms`:
    minimum retention of records.
    """

    partitions: int = 1
    replication: int = -1
    retention_ms: int = 7 * 24 * 3_600_000
    max_record_bytes: int = 8 * 2**20

    def configs(self) -> Mapping[str, str]:
        """Topic configs. Compaction is always off: all records of a cluster share a key, and
        compaction would delete all but the newest.
        """
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "max.message.bytes": str(self.max_record_bytes),
        }


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """Configuration of an existing topic. `replicas`: the minimum over its partitions;
    `leaderless`: partitions without leader.
    """

    partitions: int
    replicas: int
    leaderless: int
    configs: Mapping[str, str]

    @property
    def compacted(self) -> bool:
        return "compact" in self.configs.get("cleanup.policy", "")


def topic_facts(topic: TopicUri, access: KafkaAccess) -> TopicFacts | None:
    """The topic's configuration, None if it does not exist. Raises SinkError, PublishTimeout."""
    from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType

    with _admin(topic, access) as admin:
        (found,) = admin.describe_topics([topic.name])
        partitions = found["partitions"]
        if not partitions:
            return None
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        configs = admin.describe_configs([resource], config_filter=ConfigFilterType.ALL)["topic"][
            topic.name
        ]
    return TopicFacts(
        partitions=len(partitions),
        replicas=min(len(partition["replica_nodes"]) for partition in partitions),
        leaderless=sum(partition["leader_id"] < 0 for partition in partitions),
        configs={key: _value(one) for key, one in configs.items()},
    )


def missing_topics(topics: Collection[TopicUri], access: KafkaAccess) -> list[TopicUri]:
    """The topics that do not exist; one request per cluster. Raises SinkError, PublishTimeout."""
    missing: list[TopicUri] = []
    for servers in dict.fromkeys(topic.servers for topic in topics):
        asked = {topic.name: topic for topic in topics if topic.servers == servers}
        with _admin(next(iter(asked.values())), access) as admin:
            missing += [
                asked[found["name"]]
                for found in admin.describe_topics(list(asked))
                if not found["partitions"]
            ]
    return missing


def create_topic(topic: TopicUri, plan: TopicPlan, access: KafkaAccess) -> bool:
    """Creates a topic; False if it already exists, with any configuration. Raises SinkError,
    PublishTimeout.
    """
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

    with _admin(topic, access) as admin:
        new = NewTopic(
            topic.name, plan.partitions, plan.replication, topic_configs=dict(plan.configs())
        )
        try:
            admin.create_topics([new], wait_for_metadata=True)
        except TopicAlreadyExistsError:
            return False
    return True


@contextmanager
def _admin(topic: TopicUri, access: KafkaAccess) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    with kafka_errors(topic):
        admin = KafkaAdminClient(bootstrap_servers=topic.servers.split(","), **access.for_python())
        try:
            yield admin
        finally:
            admin.close()


def _value(config: Any) -> str:
    return str(config["value"] if isinstance(config, Mapping) else config)
