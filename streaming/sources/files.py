"""A file topic as a streaming source: byte offsets, limited batches of whole lines.

Spark's own file source reads only complete new files and keeps no order. Offsets contain the number
of records before them (since the checkpoint began), so the backlog is known in records.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypedDict

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sinks.durable_files import Fsync
from sinks.topics.files.consumer import ReadFlush
from sinks.topics.files.topic import FileTopicReader, Offset, TopicRecord
from sinks.wire.record_decoding import LARGE_BYTES, PEEKED_BYTES, WireLimits, peek
from streaming.large_records import record_again
from streaming.sources.file_places import count_lines, offset_since
from streaming.sources.records import RECORDS, WORTH_A_TASK, TopicSource, record_batch

_ROWS = 1_000
#: What is planned needs no values.
_SIZES_ONLY = WireLimits(0, 0)


class FilePlace(TypedDict):
    """An offset as Spark stores it in the checkpoint."""

    segment: int
    byte: int
    records: int


@dataclass(frozen=True)
class FileSource(TopicSource):
    """A file topic. `since_ms`: a new checkpoint starts with records of this time (ms since the
    epoch); None: with the oldest.
    """

    fail_on_data_loss: bool = True
    since_ms: int | None = None

    def reader(self, limits: WireLimits) -> FileTopicReader:
        return FileTopicReader(
            self.topic.folder,
            str(self.topic),
            limits,
            skip_deleted=not self.fail_on_data_loss,
        )


class FileTopicSource(DataSource):
    """`spark.readStream.format("file-topic")` after
    `spark.dataSource.register(FileTopicSource)`.
    """

    @classmethod
    def name(cls) -> str:
        return "file-topic"

    def schema(self) -> StructType:
        return RECORDS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FileTopicStream(msgspec.json.decode(self.options["source"], type=FileSource))


class FileTopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in a process beside the driver; `read` runs in Spark's workers."""

    def __init__(self, source: FileSource, fsync: Fsync = os.fsync) -> None:
        """`fsync`: flushes the file or folder of a file descriptor."""
        self._source = source
        self._flush = ReadFlush(source.topic.folder, fsync)
        self._topic = source.reader(_SIZES_ONLY)
        self._stop_at: Offset | None = None
        self._cuts: dict[Offset, list[FilePlace]] = {}
        self._counted: FilePlace | None = None

    def initialOffset(self) -> dict[str, Any]:
        since_ms = self._source.since_ms
        begin = self._topic.begin()
        if since_ms is not None:
            begin = offset_since(self._source.topic.folder, since_ms)
        return dict(_place(begin, 0))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._source.max_records)

    def prepareForTriggerAvailableNow(self) -> None:
        self._stop_at = self._topic.end()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = _offset(start)
        self._counted = self._counted or _place(begin, start["records"])
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        records, after = self._topic.read(begin, most, self._source.max_bytes, self._stop_at)
        if not records:
            # Not even to the start of an empty next segment: a changed offset would make an empty
            # micro-batch.
            return start
        self._flush.between(begin, after)  # Spark stores the offset next
        self._cuts = {begin: _cuts(records, start["records"], self._source.tasks)}
        end = _place(after, start["records"] + len(records))
        if after > _offset(self._counted):
            self._counted = end
        return dict(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._counted is None:
            return None
        end = self._topic.end()
        lines = count_lines(self._source.topic.folder, _offset(self._counted), end)
        self._counted = _place(end, self._counted["records"] + lines)
        return dict(self._counted)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the offsets between which each task reads."""
        return [
            InputPartition((_offset(a), _offset(b)))
            for a, b in pairwise([start, *self._cuts.get(_offset(start), []), end])
            if a != b
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        limits = self._source.limits
        most = min(limits.max_record_bytes, LARGE_BYTES)
        topic = self._source.reader(replace(limits, max_record_bytes=most))
        begin, end = partition.value
        while True:
            records, begin = topic.read(begin, _ROWS, self._source.max_bytes, end)
            if not records:
                return
            yield record_batch([self._passed_on(record) for record in records])

    def _passed_on(self, record: TopicRecord) -> TopicRecord:
        """Returns a record; of a large one only the beginning, if that names cluster and time: the
        stateful task reads the rest (`record_again`) if the cluster's quota admits it.
        """
        if not LARGE_BYTES < record.size <= self._source.limits.max_record_bytes:
            return record
        head = record.value[:PEEKED_BYTES]
        if not peek(head).has_quota:
            head = record_again(record.position, record.size)
        return record._replace(value=head)


def _place(offset: Offset, records: int) -> FilePlace:
    return {"segment": offset.segment, "byte": offset.byte, "records": records}


def _offset(place: Any) -> Offset:
    return Offset(place["segment"], place["byte"])


def _cuts(records: Sequence[TopicRecord], before: int, tasks: int) -> list[FilePlace]:
    """Cuts a batch into at most `tasks` slices, each large enough to be worth a task. Of large
    records only the beginning is passed on.
    """
    passed_on = sum(
        record.size if record.size <= LARGE_BYTES else PEEKED_BYTES for record in records
    )
    slices = min(tasks, len(records), passed_on // WORTH_A_TASK)
    starts = [len(records) * i // slices for i in range(1, slices)] if slices > 1 else []
    return [
        _place(Offset(records[i].position.partition, records[i].position.offset), before + i)
        for i in starts
    ]
