"""A server of topics, whatever its kind: contract tests run on each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sinks.topics.addresses import Topics, TopicUri
from tests.control_topic import TOPICS
from tests.topic_uris import topics_of
from tools.servers import kafka_topics, pulsar_topics
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.pulsar_cluster import PulsarCluster


@dataclass(frozen=True)
class TopicServer:
    """`make`: a topic of a group, with that number of partitions (0: Pulsar's topics without
    partitions); its URI. `put`: each record is an entry of its own. `values`: all that is there.
    """

    make: Callable[[str, str, int], str]
    put: Callable[[str | TopicUri, Sequence[bytes]], None]
    values: Callable[[str | TopicUri], list[bytes]]

    def topics(self, group: str, partitions: int) -> Topics:
        """All topics of a job, alike."""
        return topics_of(**{name: self.make(group, name, partitions) for name in TOPICS})


def topic_server(server: KafkaBroker | PulsarCluster) -> TopicServer:
    """Of a running server."""
    if isinstance(server, KafkaBroker):
        return TopicServer(
            lambda group, name, partitions: server.topic(f"contract-{group}-{name}", partitions),
            kafka_topics.put,
            kafka_topics.values,
        )
    return TopicServer(
        lambda group, name, partitions: server.topic(f"contract/{group}/{name}", partitions),
        partial(pulsar_topics.put, server, batch=1),
        partial(pulsar_topics.values, server),
    )
