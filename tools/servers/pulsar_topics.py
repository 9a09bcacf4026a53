"""Puts records on a Pulsar topic and reads all that is there, with the plainest means."""

from collections.abc import Sequence
from contextlib import closing

from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_decoding import cluster_of
from tests.topic_uris import topic_of
from tools.servers.pulsar_cluster import PulsarCluster


def put(
    cluster: PulsarCluster, uri: str | TopicUri, values: Sequence[bytes], batch: int = 10
) -> None:
    """Publishes with the cluster as the key, as a collector does, in entries of up to `batch`
    messages; returns when all are there.
    """
    results: list[str] = []
    with closing(cluster.client()) as client:
        producer = client.create_producer(
            f"persistent://{topic_of(uri).name}",
            block_if_queue_full=True,
            batching_enabled=batch > 1,
            batching_max_messages=max(2, batch),
            batching_max_allowed_size_in_bytes=2**22,
            batching_max_publish_delay_ms=1_000,
            max_pending_messages=max(1_000, 2 * batch),
        )
        for value in values:
            producer.send_async(
                value,
                lambda result, _: results.append(str(result)),
                partition_key=cluster_of(value) or None,
            )
        producer.flush()
        producer.close()
    assert results == ["Ok"] * len(values) or set(results) == {"Result.Ok"}, set(results)


def values(cluster: PulsarCluster, uri: str | TopicUri) -> list[bytes]:
    """All values that are there now, partition by partition."""
    import pulsar

    found: list[bytes] = []
    with closing(cluster.client()) as client:
        for name in sorted(client.get_topic_partitions(f"persistent://{topic_of(uri).name}")):
            reader = client.create_reader(name, pulsar.MessageId.earliest)
            while reader.has_message_available():
                found.append(reader.read_next(10_000).data())
            reader.close()
    return found
