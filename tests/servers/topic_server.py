"""A server of topics, whatever its kind: contract tests run on each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sinks.topics.topic_settings import Topics, TopicUri
from tests.control_topic import TOPICS
from tests.topic_uris import topics_of
from tools.servers import kafka_topics, pulsar_topics
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.pulsar_cluster import PulsarCluster
from tools.waiting import eventually


@dataclass(frozen=True)
class TopicServer:
    """`make`: a topic of a group, with that number of partitions (0: Pulsar's topics without
    partitions); its URI. `put`: each record is an entry of its own. `values`: all that is there.
    `replace`: a topic of one partition loses all that is there, and has these records instead.
    """

    make: Callable[[str, str, int], str]
    put: Callable[[str | TopicUri, Sequence[bytes]], None]
    values: Callable[[str | TopicUri], list[bytes]]
    replace: Callable[[TopicUri, Sequence[bytes]], None]

    def topics(self, group: str, partitions: int) -> Topics:
        return topics_of(**{name: self.make(group, name, partitions) for name in TOPICS})


def topic_server(server: KafkaBroker | PulsarCluster) -> TopicServer:
    if isinstance(server, KafkaBroker):
        return TopicServer(
            lambda group, name, partitions: server.topic(f"contract-{group}-{name}", partitions),
            kafka_topics.put,
            kafka_topics.values,
            partial(_replace_on_kafka, server),
        )
    return TopicServer(
        lambda group, name, partitions: server.topic(f"contract/{group}/{name}", partitions),
        partial(pulsar_topics.put, server, batch=1),
        partial(pulsar_topics.values, server),
        partial(_replace_on_pulsar, server),
    )


def _replace_on_kafka(broker: KafkaBroker, uri: TopicUri, records: Sequence[bytes]) -> None:
    broker.delete_records(uri.name, before=len(kafka_topics.values(uri)))
    kafka_topics.put(uri, records)


def _replace_on_pulsar(cluster: PulsarCluster, uri: TopicUri, records: Sequence[bytes]) -> None:
    cluster.forget(str(uri))
    pulsar_topics.put(cluster, uri, records)

    def is_so() -> bool:
        cluster.trim(str(uri))
        return pulsar_topics.values(cluster, uri) == records

    eventually(is_so, otherwise="the broker keeps what nothing keeps")
