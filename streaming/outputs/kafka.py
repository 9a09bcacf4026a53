"""Output topics on Kafka: Spark's connector writes all rows of a micro-batch at once; each row
names its topic.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.topics.addresses import TopicUri
from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, KafkaAccess
from sinks.topics.topic_admin import topic_facts
from sinks.wire.output_rows import LARGEST_ROUND
from strategies.errors import PublishRejected, RebalancerError
from streaming.outputs.output_counts import KINDS
from streaming.sources.kafka import client_options

#: Twice the largest round that the job writes. Kafka's default of 32 MiB fills where a micro-batch
#: rejects many large records.
_BUFFER_BYTES = 2 * LARGEST_ROUND
#: With Kafka's 16 KiB, the record of a round is a batch of its own, and preparing compression costs
#: more than compressing it.
_BATCH_BYTES = 256 * 1024


class KafkaOutput:
    """Rows of a cluster keep their order within a topic: the cluster is the key, and one task
    writes it.
    """

    #: As in CollectedOutput. Spark publishes: an interrupted micro-batch is published again after
    #: the restart, with the same ids.
    busy = False

    def __init__(self, topics: Mapping[str, TopicUri], access: KafkaAccess) -> None:
        """`topics`: by kind, all on the same servers."""
        self._topics, self._access = topics, access
        self._names = {kind: topic.name for kind, topic in topics.items()}
        self._options = {
            **client_options(topics[KINDS[0]], access),
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "1",
            "kafka.batch.size": str(_BATCH_BYTES),
            "kafka.max.request.size": str(LARGEST_REQUEST_BYTES),
            "kafka.buffer.memory": str(_BUFFER_BYTES),
            # After this timeout the job retries, and checks first whether the topic still exists.
            "kafka.max.block.ms": str(access.settings.timeout_ms),
            "kafka.delivery.timeout.ms": str(access.settings.timeout_ms + 1_000),
        }

    def explained(self, error: Exception) -> RebalancerError | None:
        """Our error behind one of Spark. The broker does not name the topic that refused a record:
        the text lists all with their limits, lowest first.
        """
        if "RecordTooLargeException" not in str(error):
            return None
        facts = {topic.name: topic_facts(topic, self._access) for topic in self._topics.values()}
        takes = sorted(
            (int(found.configs["max.message.bytes"]), name)
            for name, found in facts.items()
            if found is not None
        )
        return PublishRejected(
            f"a record is larger than its topic allows: raise the topic's max.message.bytes "
            f"({', '.join(f'{name} takes {size}' for size, name in takes)}); then start the "
            "job again, it continues where it stopped"
        )

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """See CollectedOutput. When the micro-batch ends, the broker has confirmed every row."""
        topic = F.coalesce(
            *(F.when(F.col("kind") == kind, F.lit(topic)) for kind, topic in self._names.items())
        )
        # A record of an unknown cluster has no key and may go to any partition.
        records = rows.select(
            topic.alias("topic"),
            F.when(F.col("key") != "", F.col("key")).alias("key"),
            F.col("value"),
        )
        return records.writeStream.format("kafka").options(**self._options)

    def close(self) -> None:
        """See CollectedOutput. Spark owns the producers and closes them."""
