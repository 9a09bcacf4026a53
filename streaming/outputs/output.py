"""The sink of the job: writes the rows of a micro-batch to the topics of commands, rounds and
rejected records.

At least once: if the job dies between a write and the commit of its micro-batch, the batch is
repeated, and the same bytes with the same ids are written again. No row depends on when or how
often it is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from sinks.topics.access import Publisher, open_publisher
from sinks.topics.addresses import TopicUri
from sinks.topics.kafka.settings import KafkaAccess
from strategies.errors import RebalancerError
from streaming.outputs.kafka import KafkaOutput
from streaming.outputs.output_counts import KINDS
from streaming.settings import JobSettings


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
        """The original error of publishing behind an error of the query."""
        return self._error

    def writer(self, rows: DataFrame) -> DataStreamWriter:
        """The writer of the query, which publishes the rows of each micro-batch; the micro-batch
        ends when all are stored.
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


#: Destination of a query's rows.
Output = KafkaOutput | CollectedOutput


def open_output(
    job: JobSettings,
    kafka: KafkaAccess,
    stop: threading.Event,
    explained: Callable[[Exception], Exception],
) -> Output:
    """The output for the topics' URIs; all are of one kind (`check_job`)."""
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
