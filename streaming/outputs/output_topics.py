"""The sink of the job: writes the rows of a micro-batch to the topics of commands, rounds and
rejected records. On Kafka, Spark's connector writes all rows at once; each row names its topic.

At least once: if the job dies between a write and the commit of its micro-batch, the batch is
repeated, and the same bytes with the same ids are written again. No row depends on when or how
often it is made. Says which topics do not fit each other.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.topics.kafka.settings import LARGEST_REQUEST_BYTES, KafkaAccess
from sinks.topics.open_topics import Publisher, open_publisher
from sinks.topics.topic_admin import topic_facts
from sinks.topics.topic_settings import Topics, TopicUri
from sinks.wire.event_to_topic_rows import LARGEST_ROUND
from strategies.errors import PublishRejected, RebalancerError
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.settings import JobSettings
from streaming.sources.kafka import client_options

#: Topics that the job reads or writes.
JOB_TOPICS = ("telemetry", *KINDS)
#: Twice the largest round that the job writes. Kafka's default of 32 MiB fills where a micro-batch
#: rejects many large records.
_BUFFER_BYTES = 2 * LARGEST_ROUND
#: With Kafka's 16 KiB, the record of a round is a batch of its own, and preparing compression costs
#: more than compressing it.
_BATCH_BYTES = 256 * 1024


class JobStopping(RebalancerError):
    """A micro-batch was not published because the job is stopping; it is the first one after the
    restart.
    """


class CollectedOutput:
    """Collects rows on the driver, which publishes them. `stop` is checked before rows are
    published, never in between. The publishers live as long as the query: connecting per
    micro-batch costs more than publishing.
    """

    def __init__(
        self,
        publishers: Mapping[str, Publisher],
        opened: ExitStack,
        stop: threading.Event,
        explained: Callable[[Exception], Exception],
    ) -> None:
        """`publishers`: by kind; `opened`: closes them; `explained`: converts an error of Spark to
        ours.
        """
        self._publishers, self._opened = publishers, opened
        self._explained = explained
        self._stop = stop
        #: Whether rows are being published, which must not be interrupted.
        self.busy = False
        self._error: Exception | None = None

    def explained(self, error: Exception) -> Exception | None:
        """Returns the original error of publishing behind an error of the query."""
        return self._error

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """Returns the writer of the query, which publishes the rows of each micro-batch; the
        micro-batch ends when all are stored.
        """
        return rows.writeStream.foreachBatch(self._publish)

    def close(self) -> None:
        """Closes the publishers."""
        self._opened.close()

    def _publish(self, rows: DataFrame, _batch: int) -> None:
        if self._stop.is_set():
            raise JobStopping("the job is stopping: this micro-batch is left for the next start")
        self.busy = True
        self._error = None
        try:
            publish(self._publishers, rows.collect())
        except Exception as error:
            self._error = self._explained(error)
            raise
        finally:
            self.busy = False


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
        """Returns our error behind one of Spark. The broker does not name the topic that refused a
        record: the text lists all with their limits, lowest first.
        """
        if "RecordTooLargeException" not in str(error):
            return None
        facts = {topic.name: topic_facts(topic, self._access) for topic in self._topics.values()}
        takes = sorted(
            (int(limits.configs["max.message.bytes"]), name)
            for name, limits in facts.items()
            if limits is not None
        )
        return PublishRejected(
            f"a record is larger than its topic allows: raise the topic's max.message.bytes "
            f"({', '.join(f'{name} takes {size}' for size, name in takes)}); then start the "
            "job again, it continues where it stopped"
        )

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """See CollectedOutput. When the micro-batch ends, the broker has confirmed every row."""
        names = {kind: F.lit(topic.name) for kind, topic in self._topics.items()}
        topic = F.coalesce(*(F.when(F.col("kind") == kind, name) for kind, name in names.items()))
        # A record of an unknown cluster has no key and may go to any partition.
        records = rows.select(
            topic.alias("topic"),
            F.when(F.col("key") != "", F.col("key")).alias("key"),
            F.col("value"),
        )
        return records.writeStream.format("kafka").options(**self._options)

    def close(self) -> None:
        """See CollectedOutput. Spark owns the producers and closes them."""


#: Destination of a query's rows.
Output = KafkaOutput | CollectedOutput


def open_output(
    job: JobSettings,
    kafka: KafkaAccess,
    stop: threading.Event,
    explained: Callable[[Exception], Exception],
) -> Output:
    """Returns the output for the topics' URIs; all are of one kind (`check_job`)."""
    uris: dict[str, TopicUri] = {kind: getattr(job.connections.topics, kind) for kind in KINDS}
    if uris["commands"].scheme == "kafka":
        return KafkaOutput(uris, kafka)
    access = job.connections.access
    with ExitStack() as stack:
        publishers = {
            kind: stack.enter_context(closing(open_publisher(uri, access)))
            for kind, uri in uris.items()
        }
        return CollectedOutput(publishers, stack.pop_all(), stop, explained)


def publish(publishers: Mapping[str, Publisher], rows: Iterable[Any]) -> None:
    """Publishes rows (of `processor.OUTPUT`) kind by kind, a cluster's in fold order. Returns when
    all are stored. Raises SinkError, PublishTimeout, PublishRejected.
    """
    ordered = sorted(rows, key=lambda row: (row.key, row.seq))
    for kind in KINDS:
        for row in ordered:
            if row.kind == kind:
                publishers[kind].publish(row.key, bytes(row.value))
        publishers[kind].flush()


def topic_complaints(topics: Topics) -> list[str]:
    """Complaints about the topics of a job: its outputs must be on the same servers, and no two
    topics may be the same one.
    """
    complaints: list[str] = []
    names: dict[str, str] = {}
    places = set()
    for name in JOB_TOPICS:
        topic: TopicUri = getattr(topics, name)
        if str(topic) in names:
            complaints.append(
                f"topics.{name}: is the same topic as topics.{names[str(topic)]}; every topic "
                "needs its own"
            )
        names.setdefault(str(topic), name)
        if name != "telemetry":
            places.add((topic.scheme, topic.servers))
    if len(places) > 1 and not complaints:
        complaints.append(
            "topics.commands, topics.rounds and topics.rejected: are of different kinds; put "
            "all in folders, all on one Kafka, or all "
            "on one Pulsar, because the job publishes them in one write"
        )
    return complaints
