"""What is said to be on the disk is there after a loss of power, and nothing is there by half."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from pulsar_rebalancer.decisions.notices.notice_loop_and_outbox import Outbox
from sinks.durable_files import make_folder, write_durably
from sinks.executor.journal import Journal
from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from tests.forgetful_disk import ForgetfulDisk, Image, written
from tests.notice_builders import a_notice

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LINES = [b"one", b"two", b"three", b"four"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    (tmp_path / "disk").mkdir()
    with closing(ForgetfulDisk(tmp_path / "disk")) as disk:
        yield disk


#: Machines that start again with what a failure has left.
Later = Callable[[Image], Path]


@pytest.fixture
def later(tmp_path: Path) -> Later:
    numbers = count()
    return lambda image: written(image, tmp_path / "later" / f"{next(numbers)}")


def values(folder: Path) -> list[bytes]:
    return [record.value for record in FileTopicReader(folder).read()[0]]


def test_appended_lines_survive_and_no_line_is_there_without_those_before(
    disk: ForgetfulDisk, later: Later
) -> None:
    topic = disk.root / "new" / "telemetry"
    with FileTopicWriter(topic, 8, sync=True, fsync=disk.fsync) as writer:
        for count, line in enumerate(LINES, 1):
            writer.append([line])
            for image in disk.after_a_failure():
                assert values(later(image) / "new" / "telemetry") == LINES[:count]
    assert len(disk.failures) > 2 * len(LINES)
    check_order(disk, later, "new/telemetry")


def check_order(disk: ForgetfulDisk, later: Later, topic: str) -> None:
    """After any failure, no line is there without those before."""
    for image in disk.failures:
        left = values(later(image) / topic)
        assert left == LINES[: len(left)]


def test_lines_of_a_writer_that_does_not_flush_survive_once_another_has_begun_the_next_segment(
    disk: ForgetfulDisk, later: Later
) -> None:
    with FileTopicWriter(disk.root / "telemetry", 8) as writer:
        writer.append(LINES[:2])
    with FileTopicWriter(disk.root / "telemetry", 8, sync=True, fsync=disk.fsync) as writer:
        writer.append(LINES[2:])
    for image in disk.after_a_failure():
        assert values(later(image) / "telemetry") == LINES
    assert len(disk.failures) > 4
    check_order(disk, later, "telemetry")


def test_a_position_survives_and_never_without_the_lines_before_it(
    disk: ForgetfulDisk, later: Later
) -> None:
    topic, positions = "telemetry", "state/positions"
    with FileTopicWriter(disk.root / topic, 8) as writer:  # does not flush
        for line in LINES:
            writer.append([line])

    def reader(machine: Path) -> FileConsumer:
        return FileConsumer(
            machine / topic, "file:///t", "group", machine / positions, fsync=disk.fsync
        )

    first = reader(disk.root)
    first.poll(1, 0)
    for record in first.poll(2, 0):
        first.commit(record)
    for image in disk.after_a_failure():
        assert [record.value for record in reader(later(image)).poll(10, 0)] == LINES[3:]
    assert len(disk.failures) > 10
    for image in disk.failures:
        machine = later(image)
        left = [one.value for one in reader(machine).poll(10, 0)]  # no error: it has the lines
        assert left == values(machine / topic)[-len(left) :] or not left


def test_a_file_that_is_replaced_is_old_or_new_as_a_whole_and_new_in_the_end(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.write_text("the old text")
    with closing(ForgetfulDisk(tmp_path)) as disk:
        write_durably(file, "the new one", "file.draft", disk.fsync)
        assert [image["file"] for image in disk.after_a_failure()] == [b"the new one"] * 2
        assert {image["file"] for image in disk.failures} == {b"the old text", b"the new one"}


def test_names_of_new_folders_survive(disk: ForgetfulDisk) -> None:
    make_folder(disk.root / "a" / "b", disk.fsync)
    write_durably(disk.root / "a" / "b" / "file", "text", "draft", disk.fsync)
    assert [set(image) for image in disk.after_a_failure()] == [{"a/b/file"}] * 2


def test_notices_that_wait_survive_and_the_file_is_always_whole(
    disk: ForgetfulDisk, later: Later
) -> None:
    with closing(Outbox(disk.root / "notices", disk.fsync)) as outbox:
        first = outbox.read(now_ms=1)
        second = replace(first, waiting=[a_notice()])
        for stored in (first, second):
            outbox.write(stored)
            for image in disk.after_a_failure():
                with closing(Outbox(later(image) / "notices")) as again:
                    assert again.read(now_ms=2) == stored
    assert len(disk.failures) > 4
    for image in disk.failures:
        with closing(Outbox(later(image) / "notices")) as again:
            assert again.read(now_ms=1) in (first, second)


def test_the_journal_flushes_each_change(tmp_path: Path) -> None:
    """SQLite's own flushes cannot be replaced; 2 is FULL: a transaction returns with its flush."""
    with closing(Journal(tmp_path)) as journal:
        assert journal.rows("PRAGMA synchronous") == [(2,)]
        assert journal.rows("PRAGMA journal_mode") == [("wal",)]
        journal.see_epoch("c", 7)
        assert journal.rows("PRAGMA synchronous") == [(2,)]
