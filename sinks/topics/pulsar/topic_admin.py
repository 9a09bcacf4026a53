"""Topics on a Pulsar cluster by its admin API: what is there, how long it keeps records, and making what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.answers import Call
from sinks.pulsar_api.http import PulsarHttp
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.kafka.admin import TopicPlan
from sinks.topics.uri import TopicUri
from strategies.errors import AdminError, NotFound, Refused, SinkError

_MINUTE_MS = 60_000
#: Pulsar wants the mode and a duration also where nothing is deleted.
_NEVER_DELETED = json.dumps(
    {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 60, "deleteWhileInactive": False}
).encode()


@dataclass(frozen=True, slots=True)
class PulsarTopicFacts:
    """How a topic is. `partitions`: 0 where it has none. Retention: -1 is for ever, 0 is not at all.

    `deleted_when_idle`: whether brokers delete it once it has had no client and no subscription for a while, with its policies. None where
    the token may not know.
    """

    partitions: int
    retention_minutes: int | None
    retention_mb: int | None
    deleted_when_idle: bool | None = None

    @property
    def forgets(self) -> bool:
        """Whether messages go as soon as no subscription needs them: the job has none."""
        return self.retention_minutes == 0 or self.retention_mb == 0


def pulsar_topic_facts(topic: TopicUri, settings: PulsarSettings) -> PulsarTopicFacts | None:
    """None when there is no such topic. Raises AdminError, SettingsError."""
    with _opened(settings) as http:
        try:
            partitions = _tree(http.ask(_call(topic, "GET", "partitions", "the partitions"))).get("partitions", 0)
        except NotFound:
            return None
        kept = _asked(http, _call(topic, "GET", "retention?applied=true", "the retention"))
        idle = _asked(http, _call(topic, "GET", "inactiveTopicPolicies?applied=true", "the inactive topic policies"))
    deleted = None if idle is None else bool(idle.get("deleteWhileInactive", True))
    if kept is None:
        return PulsarTopicFacts(partitions, None, None, deleted)
    return PulsarTopicFacts(partitions, kept.get("retentionTimeInMinutes", 0), kept.get("retentionSizeInMB", 0), deleted)


def create_pulsar_topic(topic: TopicUri, plan: TopicPlan, settings: PulsarSettings) -> bool:
    """False when it is there already, however it is. One partition makes a topic without partitions. Raises AdminError, SettingsError."""
    if pulsar_topic_facts(topic, settings) is not None:
        return False
    with _opened(settings) as http:
        several = plan.partitions > 1
        try:
            http.ask(_call(topic, "PUT", "partitions" if several else "", "making", str(plan.partitions).encode() if several else None))
        except NotFound as error:
            namespace = topic.name.rpartition("/")[0]
            raise SinkError(f"{topic}: there is no namespace {namespace}; make it: pulsar-admin namespaces create {namespace}") from error
        _set_policies(http, topic, plan)
    return True


def keep_pulsar_topic(topic: TopicUri, plan: TopicPlan, settings: PulsarSettings) -> None:
    """Gives a topic the retention of the plan, and keeps brokers from deleting it while it is idle. Raises AdminError, SettingsError."""
    with _opened(settings) as http:
        _set_policies(http, topic, plan)


def _set_policies(http: PulsarHttp, topic: TopicUri, plan: TopicPlan) -> None:
    """On the topic, not on its namespace, where others may have topics of their own."""
    minutes = -(-plan.retention_ms // _MINUTE_MS)
    kept = json.dumps({"retentionTimeInMinutes": minutes, "retentionSizeInMB": -1}).encode()
    try:
        http.ask(_call(topic, "POST", "inactiveTopicPolicies", "setting the inactive topic policies", _NEVER_DELETED))
        http.ask(_call(topic, "POST", "retention", "setting the retention", kept))
    except Refused as error:
        raise Refused(
            f"{error} If topic-level policies are switched off in the brokers (topicLevelPoliciesEnabled, systemTopicEnabled), set a "
            "retention, and inactive topic policies without deletion, on the namespace."
        ) from error


@contextmanager
def _opened(settings: PulsarSettings) -> Iterator[PulsarHttp]:
    with closing(PulsarAdmin(settings)) as admin, closing(PulsarHttp(settings, lambda: frozenset(admin.brokers()))) as http:
        yield http


def _asked(http: PulsarHttp, call: Call) -> Mapping[str, Any] | None:
    """The answer; None where the token may not have it."""
    try:
        return _tree(http.ask(call))
    except AdminError:
        return None


def _call(topic: TopicUri, method: str, below: str, what: str, body: bytes | None = None) -> Call:
    path = "/".join(["/admin/v2/persistent", *(quote(part, safe="") for part in topic.name.split("/")), *([below] if below else [])])
    return Call(f"{what} of {topic.name}", method, path, body=body)


def _tree(body: bytes) -> Mapping[str, Any]:
    try:
        tree = json.loads(body or b"{}")
    except ValueError:
        tree = None
    if not isinstance(tree, dict):
        raise Refused("The answer about a topic is not what Pulsar's admin API gives; is pulsar.admin_urls the web service of a broker?")
    return tree
