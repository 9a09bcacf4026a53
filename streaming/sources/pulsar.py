"""A Pulsar topic as a streaming source: message ids as offsets, limited batches, partition by
partition.

Offsets contain the number of records of a partition before them (since the checkpoint began), so a
task knows how many it must find, and the job detects deleted records.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.files.topic import TopicRecord
from sinks.topics.pulsar.partition import PartitionReader, PulsarLink
from strategies.errors import SinkError
from streaming.sources.pulsar_plan import DELETED, PulsarPlanner, ReadPlan, kept_begin
from streaming.sources.records import RECORDS, TopicSource, record_batch

#: The file in a checkpoint that keeps where it began.
BEGIN = "rebalancer.begin"
_ROWS = 1_000


@dataclass(frozen=True)
class PulsarTopic(TopicSource):
    """A Pulsar topic. `begin`: the file that keeps where a new checkpoint begins."""

    settings: PulsarSettings
    begin: str

    def link(self) -> PulsarLink:
        return PulsarLink(self.topic, self.settings, self.limits)


class PulsarSource(DataSource):
    """`spark.readStream.format("pulsar-topic")` after `spark.dataSource.register(PulsarSource)`."""

    @classmethod
    def name(cls) -> str:
        return "pulsar-topic"

    def schema(self) -> StructType:
        return RECORDS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PulsarStream(msgspec.json.decode(self.options["source"], type=PulsarTopic))


class PulsarStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in a process beside the driver; `read` runs in Spark's workers, each with
    its own connection.
    """

    def __init__(self, topic: PulsarTopic) -> None:
        self._topic = topic
        self._open: PulsarPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:
        start = self._topic.settings.start
        return kept_begin(Path(self._topic.begin), lambda: self._planner.begin(start))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._topic.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.stop_at_present_end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._topic.max_records
        return self._planner.advance(start, most)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planner.end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [
            InputPartition(plan) for plan in self._planner.slices(start, end, self._topic.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        plan: ReadPlan = partition.value
        with closing(self._topic.link()) as link:
            number, rows = 0, list[TopicRecord]()
            with closing(PartitionReader(link, plan.number, plan.name, plan.after)) as reader:
                for message in reader.read_until(plan.end):
                    number += 1
                    rows.append(message.record)
                    if len(rows) == _ROWS:
                        yield record_batch(rows)
                        rows = []
            if rows:
                yield record_batch(rows)
            if number != plan.records and self._topic.settings.fail_on_data_loss:
                raise SinkError(
                    f"{self._topic.topic}: {plan.records - number} messages of a micro-batch "
                    f"were deleted; {DELETED}"
                )

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()

    @property
    def _planner(self) -> PulsarPlanner:
        """The planner, connected on first use, in the planning process only."""
        if self._open is None:
            topic = self._topic
            self._open = PulsarPlanner(
                topic.link(), topic.max_bytes, fail_on_loss=topic.settings.fail_on_data_loss
            )
        return self._open
