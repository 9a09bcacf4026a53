"""The present ends of a topic's partitions, of any kind of topic."""

from __future__ import annotations

from contextlib import closing

from sinks.topics.access import NO_SECURITY, TopicAccess
from sinks.topics.files.segments import segments
from sinks.topics.files.topic import FileTopicReader
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.kafka.topic import KafkaTopicConsumer
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.uri import TopicUri
from sinks.wire.size_limits import DEFAULT_LIMITS

#: Greater than all offsets: nothing is appended to a segment that has a successor.
_FULL = 2**63 - 1


def ends(topic: TopicUri, access: TopicAccess = NO_SECURITY) -> dict[int, int]:
    """Partition → a number greater than the offsets of all its records, and at most that of the
    next one. Partitions of a file topic are its segments; empty ones may be absent. Raises
    SettingsError, SinkError, PublishTimeout.
    """
    if topic.scheme == "kafka":
        consumer = KafkaTopicConsumer(topic, None, kafka_access(access.kafka), DEFAULT_LIMITS)
        with closing(consumer):
            return consumer.ends
    if topic.scheme == "pulsar":
        with closing(PulsarLink(topic, access.pulsar)) as link:
            newest = {number: link.last(name) for number, name in enumerate(link.partitions())}
        return {number: id_.offset + 1 for number, id_ in newest.items() if id_ is not None}
    end = FileTopicReader(topic.folder).end()
    return {
        **dict.fromkeys((one for one in segments(topic.folder) if one < end.segment), _FULL),
        end.segment: end.byte,
    }
