"""Topics on a Kafka cluster, and on a Pulsar cluster through its admin API: their configuration,
and creating missing ones.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.admin_errors import Call
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.http import PulsarHttp
from sinks.topics.kafka.errors import kafka_errors
from sinks.topics.kafka.settings import KafkaAccess, kafka_access
from sinks.topics.topic_settings import Connections, TopicUri
from strategies.errors import AdminError, NotFound, Refused, SinkError

Made = Literal["created", "updated", "left"]


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

    def for_topic(self, name: str) -> "TopicPlan":
        """The configuration of the topic with this name in the settings."""
        # A rejected record contains the whole original in base64.
        times = {"rejected": 2}.get(name, 1)
        return replace(self, max_record_bytes=times * self.max_record_bytes)


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
        configs={
            key: str(one["value"] if isinstance(one, Mapping) else one)
            for key, one in configs.items()
        },
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


def create_or_keep(
    topic: TopicUri, plan: TopicPlan, connections: Connections, update: bool
) -> Made:
    """Creates a topic that is missing. An existing one stays as it is; with `update`, one on Pulsar
    gets the plan's retention. Raises AdminError, SinkError, PublishTimeout.
    """
    if topic.scheme == "kafka":
        return "created" if create_topic(topic, plan, kafka_access(connections.kafka)) else "left"
    is_new = pulsar_topic_facts(topic, connections.pulsar) is None
    with closing(PulsarAdmin(connections.pulsar)) as admin:
        if is_new:
            _create_pulsar_topic(admin.http, topic, plan)
        if is_new or update:
            _set_policies(admin.http, topic, plan)
    if is_new:
        return "created"
    return "updated" if update else "left"


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


#: Pulsar requires the mode and a duration even if nothing is deleted.
_NEVER_DELETED = json.dumps(
    {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 60,
        "deleteWhileInactive": False,
    }
).encode()


@dataclass(frozen=True, slots=True)
class PulsarTopicFacts:
    """Policies of a topic. Retention: -1 keeps messages for ever, 0 not at all.

    `deleted_when_idle`: whether brokers delete the topic with its policies after some time without
    clients and subscriptions. None if the token may not read this.
    """

    retention_minutes: int | None
    retention_mb: int | None
    deleted_when_idle: bool | None = None

    @property
    def deletes_acknowledged(self) -> bool:
        """True if messages are deleted as soon as no subscription needs them: the job has no
        subscription.
        """
        return self.retention_minutes == 0 or self.retention_mb == 0


def pulsar_topic_facts(topic: TopicUri, settings: PulsarSettings) -> PulsarTopicFacts | None:
    """The topic's policies; None if it does not exist. Raises AdminError, SettingsError."""
    with closing(PulsarAdmin(settings)) as admin:
        http = admin.http
        try:
            _tree(http.ask(_call(topic, "GET", "partitions", "the partitions")))
        except NotFound:
            return None
        kept = _call_optional(http, _call(topic, "GET", "retention?applied=true", "the retention"))
        policies = "inactiveTopicPolicies?applied=true"
        idle = _call_optional(http, _call(topic, "GET", policies, "the inactive topic policies"))
    deleted = None if idle is None else bool(idle.get("deleteWhileInactive", True))
    if kept is None:
        return PulsarTopicFacts(None, None, deleted)
    return PulsarTopicFacts(
        kept.get("retentionTimeInMinutes", 0), kept.get("retentionSizeInMB", 0), deleted
    )


def _create_pulsar_topic(http: PulsarHttp, topic: TopicUri, plan: TopicPlan) -> None:
    """Creates a topic. One partition creates a non-partitioned topic."""
    several = plan.partitions > 1
    try:
        http.ask(
            _call(
                topic,
                "PUT",
                "partitions" if several else "",
                "making",
                str(plan.partitions).encode() if several else None,
            )
        )
    except NotFound as error:
        namespace = topic.name.rpartition("/")[0]
        raise SinkError(
            f"{topic}: the namespace {namespace} does not exist; create it: pulsar-admin "
            f"namespaces create {namespace}"
        ) from error


def _set_policies(http: PulsarHttp, topic: TopicUri, plan: TopicPlan) -> None:
    """Sets the plan's retention, and keeps brokers from deleting the idle topic: policies of the
    topic, not of its namespace, which may contain other topics.
    """
    kept = json.dumps(
        {"retentionTimeInMinutes": -(-plan.retention_ms // 60_000), "retentionSizeInMB": -1}
    ).encode()
    try:
        http.ask(
            _call(
                topic,
                "POST",
                "inactiveTopicPolicies",
                "setting the inactive topic policies",
                _NEVER_DELETED,
            )
        )
        http.ask(_call(topic, "POST", "retention", "setting the retention", kept))
    except Refused as error:
        raise Refused(
            f"{error} If topic-level policies are disabled on the brokers "
            "(topicLevelPoliciesEnabled, systemTopicEnabled), set a "
            "retention, and inactive topic policies without deletion, on the namespace."
        ) from error


def _call_optional(http: PulsarHttp, call: Call) -> Mapping[str, Any] | None:
    """The answer; None if the token may not read it."""
    try:
        return _tree(http.ask(call))
    except AdminError:
        return None


def _call(topic: TopicUri, method: str, below: str, what: str, body: bytes | None = None) -> Call:
    path = "/".join(
        [
            "/admin/v2/persistent",
            *(quote(part, safe="") for part in topic.name.split("/")),
            *([below] if below else []),
        ]
    )
    return Call(f"{what} of {topic.name}", path, method, body=body)


def _tree(body: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (ValueError, RecursionError):
        raise Refused(
            "The answer about a topic is not one of Pulsar's admin API; check that "
            "pulsar.admin_urls is the web service of a broker."
        ) from None
