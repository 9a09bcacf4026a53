"""Retention of file topics: writers delete old segments, and a reader that comes too late says so
or goes on at the oldest line.
"""

from __future__ import annotations

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from sinks.topics.access import TopicAccess, open_consumer, open_publisher, open_reader
from sinks.topics.files.segments import segment_path, segments
from sinks.topics.files.settings import FileSettings
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.uri import TopicUri, file_topic
from sinks.wall_clock import wall_clock_ms
from strategies.errors import SinkError

HOUR_MS = 3_600_000


@pytest.fixture
def topic(tmp_path: Path) -> TopicUri:
    return file_topic(tmp_path / "telemetry")


def written(topic: TopicUri, *lines: bytes) -> None:
    """Each line in a segment of its own, the first one an hour before the second and so on; the
    newest one now, in ms since 1970: 10 hours.
    """
    for line in lines:
        with FileTopicWriter(topic.folder, 1) as writer:
            writer.append([line])
    for age, number in enumerate(reversed(segments(topic.folder))):
        s = (10 - age) * 3600
        os.utime(segment_path(topic.folder, number), (s, s))


def lines(topic: TopicUri) -> list[bytes]:
    with closing(open_reader(topic)) as reader:
        return [record.value for record in reader.read()]


def appended(topic: TopicUri, line: bytes, retention_ms: int | None, now_ms: int) -> None:
    with FileTopicWriter(
        topic.folder, 1, retention_ms=retention_ms, clock_ms=lambda: now_ms
    ) as writer:
        writer.append([line])


def test_a_writer_deletes_what_is_older_than_the_retention(topic: TopicUri) -> None:
    written(topic, b"7 h", b"8 h", b"9 h", b"10 h")
    appended(topic, b"new", 2 * HOUR_MS, 10 * HOUR_MS)
    assert lines(topic) == [b"8 h", b"9 h", b"10 h", b"new"]


def test_a_reader_at_the_end_of_a_full_segment_misses_nothing_when_its_writer_was_silent_for_long(
    topic: TopicUri, tmp_path: Path
) -> None:
    written(topic, b"9 h", b"10 h")
    with closing(open_consumer(topic, "group", tmp_path)) as consumer:
        consumer.commit(consumer.poll(2, 0)[-1])
        appended(topic, b"now", HOUR_MS, wall_clock_ms())
        assert [record.value for record in consumer.poll(2, 0)] == [b"now"]


def test_the_newest_segment_stays_however_old_it_is(topic: TopicUri) -> None:
    written(topic, b"9 h", b"10 h")
    appended(topic, b"new", 1, 10**9 * HOUR_MS)
    assert lines(topic) == [b"10 h", b"new"]


def test_old_segments_make_room_on_a_full_disk(topic: TopicUri) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    written(topic, b"9 h", b"10 h")
    with (
        FileTopicWriter(
            topic.folder, sync=True, retention_ms=1, fsync=full, clock_ms=lambda: 10 * HOUR_MS
        ) as writer,
        pytest.raises(SinkError, match="make room"),
    ):
        writer.append([b"new"])
    assert segments(topic.folder) == [1]


def test_without_retention_nothing_is_deleted(topic: TopicUri) -> None:
    written(topic, b"1", b"2")
    appended(topic, b"3", None, 10**9 * HOUR_MS)
    assert lines(topic) == [b"1", b"2", b"3"]
    assert FileSettings().retention_ms is None


def test_publishers_have_the_retention_of_the_settings(topic: TopicUri) -> None:
    written(topic, b"1970", b"1970 too")
    access = TopicAccess(files=FileSettings(retention_hours=5))
    with closing(open_publisher(topic, access)) as publisher:
        publisher.publish("c", b"now")
        publisher.flush()
    assert lines(topic) == [b"1970 too", b"now"]


def test_a_consumer_that_comes_too_late_says_so_or_goes_on_with_the_oldest_line(
    topic: TopicUri, tmp_path: Path
) -> None:
    written(topic, b"0", b"1", b"2", b"3")
    with closing(open_consumer(topic, "group", tmp_path)) as consumer:
        consumer.commit(consumer.poll(1, 0)[0])
    for number in (0, 1):
        segment_path(topic.folder, number).unlink()
    with (
        closing(open_consumer(topic, "group", tmp_path)) as consumer,
        pytest.raises(
            SinkError, match=r"^Offset 0:2 of .*-00000002.jsonl.*fail_on_data_loss=false"
        ),
    ):
        consumer.poll(10, 0)
    lenient = TopicAccess(files=FileSettings(fail_on_data_loss=False))
    with closing(open_consumer(topic, "group", tmp_path, access=lenient)) as consumer:
        assert [record.value for record in consumer.poll(10, 0)] == [b"2", b"3"]


def test_a_hole_is_an_error_for_all(topic: TopicUri, tmp_path: Path) -> None:
    written(topic, b"0", b"1", b"2")
    segment_path(topic.folder, 1).unlink()
    lenient = TopicAccess(files=FileSettings(fail_on_data_loss=False))
    with (
        closing(open_consumer(topic, "group", tmp_path, access=lenient)) as consumer,
        pytest.raises(SinkError, match=r"Offset 1:0 of .* is gone"),
    ):
        consumer.poll(10, 0)


def test_a_copy_that_is_overtaken_by_the_retention_goes_on(topic: TopicUri) -> None:
    written(topic, b"0", b"1", b"2")
    with closing(open_reader(topic)) as reader:
        segment_path(topic.folder, 0).unlink()
        assert [record.value for record in reader.read()] == [b"1", b"2"]


def test_a_segment_that_cannot_be_deleted_does_not_stop_the_writer(topic: TopicUri) -> None:
    written(topic, b"9 h", b"10 h")
    oldest = segment_path(topic.folder, 0)
    oldest.unlink()
    (oldest / "not a file").mkdir(parents=True)
    os.utime(oldest, (0, 0))
    appended(topic, b"new", HOUR_MS, 20 * HOUR_MS)
    assert segment_path(topic.folder, 2).read_bytes() == b"new\n"


@pytest.mark.parametrize("lost", ["cut", "deleted"])
def test_a_consumer_whose_place_is_gone_names_its_file_of_positions(
    topic: TopicUri, tmp_path: Path, lost: str
) -> None:
    """An executor or a notifier has no checkpoint."""
    written(topic, b"0", b"1", b"2")
    with closing(open_consumer(topic, "group", tmp_path)) as consumer:
        consumer.commit(consumer.poll(2, 0)[-1])
    for number in (0, 1):
        path = segment_path(topic.folder, number)
        path.write_bytes(b"") if lost == "cut" else path.unlink()
    (positions,) = tmp_path.glob("group-*.json")
    with (
        closing(open_consumer(topic, "group", tmp_path)) as consumer,
        pytest.raises(SinkError, match=f", or delete {positions}, which reads the topic") as told,
    ):
        consumer.poll(10, 0)
    assert "checkpoint" not in str(told.value)

    positions.unlink()
    with closing(open_consumer(topic, "group", tmp_path)) as consumer:
        assert [record.value for record in consumer.poll(10, 0)] == [b"2"]


def test_a_reader_without_a_place_of_its_own_is_started_again(topic: TopicUri) -> None:
    written(topic, b"0", b"1")
    with closing(open_reader(topic, follow=True)) as reader:
        assert len(reader.read()) == 2
        segment_path(topic.folder, 1).write_bytes(b"")
        with pytest.raises(SinkError, match=r"is gone: .*, or start the command again"):
            reader.read()
