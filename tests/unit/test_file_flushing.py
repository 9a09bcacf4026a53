"""A position is on the disk only after the lines before it, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sinks.topics.files.consumer import FileConsumer
from sinks.topics.files.flushing import ReadFlush
from sinks.topics.files.segments import Offset, segment_path
from sinks.topics.files.topic import FileTopicWriter
from strategies.errors import SinkError

TOPIC = "file:///telemetry"


class Disk:
    """Notes what is flushed, by its path under a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.flushed: list[str] = []

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self.flushed.append(os.path.relpath(path, self._root))

    def told(self) -> list[str]:
        """What was flushed since the last call."""
        flushed, self.flushed = self.flushed, []
        return flushed


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def unflushed(folder: Path, *lines: bytes, segment_bytes: int = 2**20) -> None:
    """Lines of a writer that does not flush."""
    with FileTopicWriter(folder, segment_bytes) as writer:
        for line in lines:
            writer.append([line])


def consumer(tmp_path: Path, fsync: Callable[[int], None]) -> FileConsumer:
    return FileConsumer(tmp_path / "telemetry", TOPIC, "group", tmp_path / "positions", fsync=fsync)


def test_what_a_consumer_has_flushed_is_not_flushed_again(tmp_path: Path, disk: Disk) -> None:
    unflushed(tmp_path / "telemetry", b"one", b"two", segment_bytes=3)
    reader = consumer(tmp_path, disk.fsync)
    reader.commit(reader.poll(10, 0)[-1])
    disk.told()
    unflushed(tmp_path / "telemetry", b"three")
    reader.commit(reader.poll(10, 0)[-1])
    assert [name for name in disk.told() if name.startswith("telemetry")] == [
        "telemetry/segment-00000001.jsonl"
    ]


def test_a_disk_that_does_not_flush_the_lines_gets_no_position(tmp_path: Path) -> None:
    def broken(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            raise OSError(5, "Input/output error")

    unflushed(tmp_path / "telemetry", b"one")
    reader = consumer(tmp_path, broken)
    record = reader.poll(10, 0)[-1]
    with pytest.raises(SinkError, match=r"cannot be flushed \(Input/output error\); check the"):
        reader.commit(record)
    assert consumer(tmp_path, broken).poll(10, 0) == [record]


def test_a_segment_that_was_deleted_after_it_was_read_is_left_out(
    tmp_path: Path, disk: Disk
) -> None:
    folder = tmp_path / "telemetry"
    unflushed(folder, b"one", b"two", segment_bytes=3)
    segment_path(folder, 0).unlink()
    ReadFlush(folder, disk.fsync).between(Offset(0, 0), Offset(1, 4))
    assert disk.told() == ["telemetry/segment-00000001.jsonl", "telemetry"]
