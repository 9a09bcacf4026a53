"""Retention of file topics: writers delete old segments, and a reader that comes too late says so
or goes on at the oldest line.
"""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from sinks.graceful_stop import wall_clock_ms
from sinks.topics.files.segments import segment_path, segments
from sinks.topics.files.topic import FileTopicWriter, TopicRecord
from sinks.topics.open_topics import open_consumer, open_publisher, open_reader
from sinks.topics.topic_settings import FileSettings, TopicAccess, TopicUri, file_topic
from strategies.errors import SinkError

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NOW_MS, WEEK_MS, AHEAD_MS = 400 * DAY_MS, 7 * DAY_MS, 8 * DAY_MS
LENIENT = TopicAccess(files=FileSettings(fail_on_data_loss=False))


@pytest.fixture
def topic(tmp_path: Path) -> TopicUri:
    return file_topic(tmp_path / "telemetry")


def written_at(topic: TopicUri, number: int, ms: int) -> None:
    os.utime(segment_path(topic.folder, number), (ms / 1000, ms / 1000))


def written(topic: TopicUri, *lines: bytes, ended_ms: Sequence[int] = ()) -> None:
    """Each line in a segment of its own, that ended at this time since 1970; without times, the
    newest one after 10 hours, the one before an hour earlier and so on.
    """
    with FileTopicWriter(topic.folder, 1) as writer:
        for line in lines:
            writer.append([line])
    hours = [HOUR_MS * (10 - age) for age in reversed(range(len(lines)))]
    for number, ms in zip(segments(topic.folder), ended_ms or hours, strict=True):
        written_at(topic, number, ms)


def values(records: Iterable[TopicRecord]) -> list[bytes]:
    return [record.value for record in records]


def lines(topic: TopicUri) -> list[bytes]:
    with closing(open_reader(topic)) as reader:
        return values(reader.read())


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
        assert values(consumer.poll(2, 0)) == [b"now"]


def test_old_segments_make_room_on_a_full_disk(topic: TopicUri) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    written(topic, b"9 h", b"10 h")
    writer = FileTopicWriter(
        topic.folder, sync=True, retention_ms=1, fsync=full, clock_ms=lambda: 10 * HOUR_MS
    )
    with closing(writer), pytest.raises(SinkError, match="make room"):
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
    said = r"^Offset 0:2 of .*-00000002.jsonl.*fail_on_data_loss=false"
    with (
        closing(open_consumer(topic, "group", tmp_path)) as consumer,
        pytest.raises(SinkError, match=said),
    ):
        consumer.poll(10, 0)
    with closing(open_consumer(topic, "group", tmp_path, access=LENIENT)) as consumer:
        assert values(consumer.poll(10, 0)) == [b"2", b"3"]


def test_a_hole_is_an_error_for_all(topic: TopicUri, tmp_path: Path) -> None:
    written(topic, b"0", b"1", b"2")
    segment_path(topic.folder, 1).unlink()
    with (
        closing(open_consumer(topic, "group", tmp_path, access=LENIENT)) as consumer,
        pytest.raises(SinkError, match=r"Offset 1:0 of .* is gone"),
    ):
        consumer.poll(10, 0)


def test_a_copy_that_is_overtaken_by_the_retention_goes_on(topic: TopicUri) -> None:
    written(topic, b"0", b"1", b"2")
    with closing(open_reader(topic)) as reader:
        segment_path(topic.folder, 0).unlink()
        assert values(reader.read()) == [b"1", b"2"]


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
        assert values(consumer.poll(10, 0)) == [b"2"]


def test_a_reader_without_a_place_of_its_own_is_started_again(topic: TopicUri) -> None:
    written(topic, b"0", b"1")
    with closing(open_reader(topic, follow=True)) as reader:
        assert len(reader.read()) == 2
        segment_path(topic.folder, 1).write_bytes(b"")
        with pytest.raises(SinkError, match=r"is gone: .*, or start the command again"):
            reader.read()


def at(ms: int) -> bytes:
    return b'{"v":1,"kind":"sweep","cluster":"c","ts":%d,"sweep":1,"brokers":[]}' % ms


def command_at(ms: int) -> bytes:
    return b'{"v":1,"id":"x","cluster":"c","issued_at_ms":%d,"expires_at_ms":%d}' % (ms, ms + 1)


def history(topic: TopicUri, record: Callable[[int], bytes], *ages_ms: int) -> list[bytes]:
    """One segment for each age, that its record and its file have; returns the records."""
    times = [NOW_MS - age for age in ages_ms]
    records = [record(ms) for ms in times]
    written(topic, *records, ended_ms=times)
    return records


@pytest.mark.parametrize("record", [at, command_at])
def test_a_clock_that_is_ahead_for_one_append_deletes_nothing(
    topic: TopicUri, record: Callable[[int], bytes]
) -> None:
    before = history(topic, record, *(age * HOUR_MS for age in range(20, 0, -1)))
    ahead, right = record(NOW_MS + AHEAD_MS), record(NOW_MS + 1)
    appended(topic, ahead, WEEK_MS, NOW_MS + AHEAD_MS)
    written_at(topic, 20, NOW_MS + AHEAD_MS)
    appended(topic, right, WEEK_MS, NOW_MS + 1)
    assert lines(topic) == [*before, ahead, right]


def test_a_clock_that_is_ahead_for_many_appends_to_a_segment_deletes_nothing(
    topic: TopicUri,
) -> None:
    before = history(topic, at, 3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS)
    ahead = at(NOW_MS + AHEAD_MS)
    for _ in range(3):
        with FileTopicWriter(
            topic.folder, retention_ms=WEEK_MS, clock_ms=lambda: NOW_MS + AHEAD_MS
        ) as writer:
            writer.append([ahead])
        written_at(topic, 2, NOW_MS + AHEAD_MS)
    assert lines(topic) == [*before, ahead, ahead, ahead]


def test_a_clock_that_one_of_several_writers_has_ahead_deletes_nothing(topic: TopicUri) -> None:
    before = history(topic, at, 3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS)
    ahead, right = at(NOW_MS + AHEAD_MS), at(NOW_MS)
    turns = [(ahead, NOW_MS + AHEAD_MS), (ahead, NOW_MS + AHEAD_MS), (right, NOW_MS)] * 2
    for record, now_ms in turns:
        appended(topic, record, WEEK_MS, now_ms)
        written_at(topic, segments(topic.folder)[-1], NOW_MS)
    assert lines(topic) == [*before, *[ahead, ahead, right] * 2]


def test_what_is_old_by_clock_and_records_is_deleted(topic: TopicUri) -> None:
    before = history(topic, at, 30 * DAY_MS, 8 * DAY_MS, 6 * DAY_MS, HOUR_MS)
    appended(topic, at(NOW_MS), WEEK_MS, NOW_MS)
    assert lines(topic) == [*before[2:], at(NOW_MS)]


def test_one_record_of_the_future_keeps_no_segment(topic: TopicUri) -> None:
    history(topic, at, 30 * DAY_MS, 8 * DAY_MS, HOUR_MS)
    with segment_path(topic.folder, 0).open("ab") as segment:
        segment.write(at(10 * NOW_MS) + b"\n")
    written_at(topic, 0, NOW_MS - 30 * DAY_MS)
    appended(topic, at(NOW_MS), WEEK_MS, NOW_MS)
    assert segments(topic.folder) == [2, 3]


def test_a_torn_line_at_its_end_hides_no_segments_time(topic: TopicUri) -> None:
    history(topic, at, HOUR_MS, 0)
    with segment_path(topic.folder, 0).open("ab") as segment:
        segment.write(b'{"v":1,"kind":"swe\n')
    with segment_path(topic.folder, 1).open("r+b") as segment:
        segment.write(b"torn")  # neither does its successor say when it began
    written_at(topic, 0, NOW_MS - HOUR_MS)
    written_at(topic, 1, NOW_MS)
    appended(topic, at(NOW_MS + AHEAD_MS), WEEK_MS, NOW_MS + AHEAD_MS)
    assert segments(topic.folder) == [0, 1, 2]
