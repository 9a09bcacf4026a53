"""The streaming source: batches of exactly the size asked for, no half lines, the same slices after
a restart.
"""

import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic
from sinks.wire.record_decoding import PEEKED_BYTES, Position, WireLimits, peek
from strategies.errors import SinkError
from streaming.large_records import record_again
from streaming.sources.files import FileSource, FileTopicSource, FileTopicStream
from streaming.sources.records import RECORDS

LINES = [b"%03d:%s" % (i, b"x" * (i % 7)) for i in range(100)]


class Topic:
    """A file topic in a folder, and streams over it as Spark would make them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, *lines: bytes, segment_bytes: int = 2**26) -> None:
        with FileTopicWriter(self.folder, segment_bytes) as writer:
            for line in lines:
                writer.append([line])

    def stream(
        self,
        max_records: int = 1000,
        max_bytes: int = 2**27,
        tasks: int = 1,
        limits: WireLimits | None = None,
    ) -> FileTopicStream:
        source = FileSource(
            file_topic(self.folder), max_records, max_bytes, tasks, limits or WireLimits()
        )
        return stream_of(source)


def stream_of(source: FileSource) -> FileTopicStream:
    """By way of the options, as Spark makes it."""
    made = FileTopicSource(source.options()).streamReader(RECORDS)
    assert isinstance(made, FileTopicStream)
    return made


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path / "telemetry")


def planned(stream: FileTopicStream) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the first micro-batch begins and ends."""
    start = stream.initialOffset()
    return start, stream.latestOffset(start, stream.getDefaultReadLimit())


def follow(
    stream: FileTopicStream, start: dict[str, Any] | None = None
) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Micro-batches until there is no more: where each ends, and its values."""
    start = stream.initialOffset() if start is None else start
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        yield json.loads(json.dumps(end)), values(stream, start, end)
        start = end


def values(stream: FileTopicStream, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    slices = [pickle.loads(pickle.dumps(one)) for one in stream.partitions(start, end)]
    batches = [batch for one in slices for batch in stream.read(one)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_batch_holds_exactly_as_many_records_as_asked_for(topic: Topic, size: int) -> None:
    topic.append(*LINES, segment_bytes=300)
    batches = [batch for _, batch in follow(topic.stream(size))]
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert [line for batch in batches for line in batch] == LINES


def test_a_batch_ends_with_the_record_that_fills_it(topic: Topic) -> None:
    topic.append(*[b"y" * 400] * 5)
    assert [len(batch) for _, batch in follow(topic.stream(max_bytes=800))] == [2, 2, 1]
    assert [len(batch) for _, batch in follow(topic.stream(max_bytes=10))] == [1] * 5


def test_a_topic_that_does_not_exist_yet_is_empty(topic: Topic) -> None:
    stream = topic.stream()
    assert list(follow(stream)) == []
    topic.append(b"first")
    assert [batch for _, batch in follow(stream)] == [[b"first"]]


def test_a_restart_reads_the_same_records_again(topic: Topic) -> None:
    """After a crash Spark asks a new stream for the range that it had written down."""
    topic.append(*LINES)
    first = topic.stream(30)
    (end, batch), *_ = follow(first)
    topic.append(b"later")
    restarted = topic.stream(5)
    assert values(restarted, restarted.initialOffset(), end) == batch
    assert next(follow(restarted, end))[1] == LINES[30:35]


def test_large_batches_are_cut_into_slices_that_join_without_gap(topic: Topic) -> None:
    big = [b"%05d" % i + b"z" * 20_000 for i in range(400)]
    topic.append(*big, segment_bytes=3_000_000)
    stream = topic.stream(tasks=3)
    start, end = planned(stream)
    assert len(stream.partitions(start, end)) == 3
    assert values(stream, start, end) == big


def test_small_batches_stay_in_one_slice(topic: Topic) -> None:
    topic.append(*LINES)
    stream = topic.stream(tasks=3)
    start, end = planned(stream)
    assert len(stream.partitions(start, end)) == 1
    assert stream.partitions(start, start) == []


def test_draining_stops_at_what_was_there_when_it_began(topic: Topic) -> None:
    topic.append(*LINES[:10])
    stream = topic.stream(4)
    stream.prepareForTriggerAvailableNow()
    topic.append(b"later")
    assert [line for _, batch in follow(stream) for line in batch] == LINES[:10]


def test_it_knows_how_many_records_it_is_behind(topic: Topic) -> None:
    topic.append(*LINES, segment_bytes=200)
    stream = topic.stream(30)

    def newest() -> Any:
        return (stream.reportLatestOffset() or {})["records"]

    assert [newest() - end["records"] for end, _ in follow(stream)] == [70, 40, 10, 0]
    topic.append(b"1", b"2")
    assert newest() == 102


def test_a_batch_is_on_the_disk_before_spark_stores_its_end(topic: Topic) -> None:
    flushed: list[str] = []

    def fsync(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)

    topic.append(b"one", b"two", segment_bytes=3)
    stream = FileTopicStream(
        FileSource(file_topic(topic.folder), 10, 2**20, 1, WireLimits()), fsync
    )
    planned(stream)
    assert flushed == ["segment-00000000.jsonl", "segment-00000001.jsonl", "telemetry"]


def test_a_position_that_retention_has_deleted_ends_the_job_or_goes_on_at_the_oldest_line(
    topic: Topic,
) -> None:
    topic.append(b"one", b"two", b"three", segment_bytes=1)
    source = FileSource(file_topic(topic.folder), 1, 2**20, 1, WireLimits())
    strict, lenient = (stream_of(replace(source, fail_on_data_loss=loss)) for loss in (True, False))
    start, end = planned(strict)
    (topic.folder / "segment-00000000.jsonl").unlink()
    with pytest.raises(SinkError, match="fail_on_data_loss=false"):
        values(strict, start, end)
    assert values(lenient, start, end) == []
    assert [found for _, found in follow(lenient, start)] == [[b"two"], [b"three"]]


def test_of_a_large_record_the_beginning_is_passed_on_if_it_names_cluster_and_time(
    topic: Topic,
) -> None:
    """The stateful task reads the rest, if the cluster's quota admits the record."""
    fields, filler = b'"v":1,"kind":"note","cluster":"c","ts":1', b'"note":"%s"' % (b"x" * 300_000)
    named, unnamed = b"{%s,%s}" % (fields, filler), b"{%s,%s}" % (filler, fields)
    topic.append(named, b"small", unnamed, b"y" * 500_000)
    stream = topic.stream(limits=WireLimits(max_record_bytes=400_000, kept_bytes=5_000))
    ((_, found),) = follow(stream)
    head, *others = found
    assert named.startswith(head)
    assert peek(head) == peek(named) == ("c", 1, True)
    assert len(head) <= PEEKED_BYTES
    assert others == [b"small", unnamed, b"y" * 5_000]
    place = Position(str(file_topic(topic.folder)), 0, 0)
    assert record_again(place, len(named)) == named
    (topic.folder / "segment-00000000.jsonl").write_bytes(named[:1_000])
    with pytest.raises(SinkError, match="was deleted, cut or replaced"):
        record_again(place, len(named))
