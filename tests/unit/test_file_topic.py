"""File topics: many writers, one order; readers that never see half a line; torn lines;
segments that roll and go; positions behind flushed lines.
"""

import fcntl
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.topics.files.consumer import FileConsumer, ReadFlush
from sinks.topics.files.segments import Offset, segment_path, split_lines
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter, TopicRecord
from sinks.wire.record_decoding import Position, WireLimits
from strategies.errors import ContractError, PublishTimeout, SinkError

ROOT = Path(__file__).parents[2]
SEGMENT = "segment-00000000.jsonl"


def values(records: list[TopicRecord]) -> list[bytes]:
    return [record.value for record in records]


def read_all(folder: Path) -> list[bytes]:
    return values(FileTopicReader(folder).read()[0])


def append(folder: Path, *lines: bytes, segment_bytes: int = 2**20) -> Offset:
    with FileTopicWriter(folder, segment_bytes) as writer:
        return writer.append(lines)


def test_what_was_appended_is_read_in_order_with_its_place(tmp_path: Path) -> None:
    assert append(tmp_path / "t", b"one", b"three") == Offset(0, 10)
    assert append(tmp_path / "t", b"") == Offset(0, 11)
    records, end = FileTopicReader(tmp_path / "t", "telemetry").read()
    assert records == [
        TopicRecord(Position("telemetry", 0, 0), b"one", 3),
        TopicRecord(Position("telemetry", 0, 4), b"three", 5),
        TopicRecord(Position("telemetry", 0, 10), b"", 0),
    ]
    assert end == FileTopicReader(tmp_path / "t").end() == Offset(0, 11)


def test_a_folder_that_is_not_there_yet_is_an_empty_topic(tmp_path: Path) -> None:
    reader = FileTopicReader(tmp_path / "later")
    assert reader.begin() == reader.end() == Offset(0, 0)
    assert reader.read() == ([], Offset(0, 0))
    append(tmp_path / "later", b"x")
    assert values(reader.read(Offset(0, 0))[0]) == [b"x"]


def test_segments_roll_and_are_read_as_one_topic(tmp_path: Path) -> None:
    for number in range(10):
        append(tmp_path, b"%d" % number * 9, segment_bytes=20)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl"))[0] == SEGMENT
    records, end = FileTopicReader(tmp_path).read()
    assert [record.position.partition for record in records] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert end == Offset(4, 20)


@pytest.mark.heavy
@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=5),
        max_size=8,
    ),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 60),
)
def test_however_it_is_cut_into_reads_the_topic_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[bytes]],
    segment_bytes: int,
    max_records: int,
    max_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("topic")
    for batch in batches:
        append(folder, *batch, segment_bytes=segment_bytes)
    reader = FileTopicReader(folder)
    whole, end = reader.read()
    assert values(whole) == [line for batch in batches for line in batch]
    assert end == reader.end()
    pieces: list[TopicRecord] = []
    offset = reader.begin()
    while True:
        piece, after = reader.read(offset, max_records, max_bytes)
        assert reader.read(offset, end=after) == (piece, after)
        if after == offset:
            break
        pieces, offset = pieces + piece, after
    assert (pieces, offset) == (whole, end)


@pytest.mark.parametrize(
    ("segment_bytes", "end"), [(2**20, Offset(0, 16)), (3, Offset(1, 5))], ids=["same", "next"]
)
def test_the_torn_line_of_a_dead_writer_is_a_line_of_its_own_once_another_one_begins(
    tmp_path: Path, segment_bytes: int, end: Offset
) -> None:
    append(tmp_path, b"whole")
    with (tmp_path / SEGMENT).open("ab") as dead:
        dead.write(b"torn")
    reader = FileTopicReader(tmp_path)
    assert (values(reader.read()[0]), reader.end()) == ([b"whole"], Offset(0, 6))
    assert append(tmp_path, b"next", segment_bytes=segment_bytes) == end
    assert read_all(tmp_path) == [b"whole", b"torn", b"next"]


def test_the_end_of_a_finished_segment_ends_its_last_line(tmp_path: Path) -> None:
    """Nobody will ever end it: the segment has a successor. Somebody else wrote it."""
    (tmp_path / SEGMENT).write_bytes(b"a\nb")
    (tmp_path / "segment-00000001.jsonl").write_bytes(b"c\n")
    reader = FileTopicReader(tmp_path)
    assert read_all(tmp_path) == [b"a", b"b", b"c"]
    records, offset = reader.read(max_records=2)
    assert values(records) == [b"a", b"b"]
    assert values(reader.read(offset)[0]) == [b"c"]


def test_a_line_that_is_too_long_is_cut_and_its_size_told(tmp_path: Path) -> None:
    append(tmp_path, b"short", b"l" * 3_000_000, b"after")
    reader = FileTopicReader(tmp_path, limits=WireLimits(max_record_bytes=2_000_000, kept_bytes=7))
    records, end = reader.read()
    assert [(record.value, record.size) for record in records] == [
        (b"short", 5),
        (b"l" * 7, 3_000_000),
        (b"after", 5),
    ]
    assert end == reader.end()


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12)), st.integers(0, 12))
def test_lines_do_not_depend_on_where_blocks_end(blocks: list[bytes], longest: int) -> None:
    limits = WireLimits(max_record_bytes=longest, kept_bytes=3)
    pieces = b"".join(blocks).split(b"\n")
    expected = [
        (piece if len(piece) <= longest else piece[:3], len(piece), True) for piece in pieces[:-1]
    ]
    if pieces[-1]:
        expected.append(
            (pieces[-1] if len(pieces[-1]) <= longest else pieces[-1][:3], len(pieces[-1]), False)
        )
    assert list(split_lines(blocks, limits)) == expected


class _Block(bytes):
    """Counts how often it is taken apart."""

    taken_apart = 0

    def split(self, *given: Any) -> list[bytes]:
        type(self).taken_apart += 1
        return super().split(*given)


def test_what_is_not_kept_of_a_long_line_is_not_copied() -> None:
    _Block.taken_apart = 0
    blocks = [_Block(b"x" * 1_000)] * 50 + [_Block(b"xx\nyy")]
    found = list(split_lines(blocks, WireLimits(max_record_bytes=1_500, kept_bytes=200)))
    assert found == [(b"x" * 200, 50_002, True), (b"yy", 2, False)]
    assert _Block.taken_apart == 3


def test_a_newline_in_a_record_is_our_bug(tmp_path: Path) -> None:
    with FileTopicWriter(tmp_path) as writer, pytest.raises(ContractError, match="newline"):
        writer.append([b"fine", b"not\nfine"])
    assert read_all(tmp_path) == []


@pytest.mark.parametrize(
    ("offset", "gone"),
    [(Offset(0, 0), "0:0"), (Offset(1, 3), "1:3"), (Offset(1, 99), "1:99"), (Offset(7, 0), "7:0")],
    ids=["deleted segment", "middle of a line", "beyond the end", "never written"],
)
def test_an_offset_that_is_gone_is_an_error_that_says_what_to_do(
    tmp_path: Path, offset: Offset, gone: str
) -> None:
    for line in (b"first", b"second", b"third"):
        append(tmp_path, line, segment_bytes=1)
    (tmp_path / SEGMENT).unlink()
    reader = FileTopicReader(tmp_path)
    said = rf"Offset {gone} of .* is gone: .* start with a new checkpoint"
    with pytest.raises(SinkError, match=said):
        reader.read(offset)
    assert values(reader.read()[0]) == [b"second", b"third"]
    assert values(reader.read(Offset(1, 7))[0]) == [b"third"]


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot be written"):
        FileTopicWriter(tmp_path / "file")


def test_a_folder_that_was_made_anew_is_noticed(tmp_path: Path) -> None:
    """Two writers with two locks would mix their lines."""
    with FileTopicWriter(tmp_path) as writer:
        (tmp_path / ".lock").unlink()
        (tmp_path / ".lock").write_text("")
        with pytest.raises(SinkError, match="open the topic again"):
            writer.append([b"x"])


def test_a_writer_that_never_lets_go_is_told_about(tmp_path: Path) -> None:
    with (
        FileTopicWriter(tmp_path, lock_timeout_s=0.05) as writer,
        (tmp_path / ".lock").open("w") as held,
    ):
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PublishTimeout, match="locked by another writer") as raised:
            writer.append([b"x"])
        assert raised.value.retryable
        fcntl.flock(held, fcntl.LOCK_UN)
        writer.append([b"y"])
    assert read_all(tmp_path) == [b"y"]


MANY_LINES = """
import sys
from pathlib import Path
from sinks.topics.files.topic import FileTopicWriter
writer = FileTopicWriter(Path(sys.argv[1]), segment_bytes=5000)
for number in range(200):
    name, rest = sys.argv[2].encode(), b"x" * (number % 97)
    writer.append([b"%s %d %d %s" % (name, number, part, rest) for part in range(3)])
"""


@pytest.mark.heavy
def test_several_writers_share_a_topic_in_one_order(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", MANY_LINES, tmp_path, name], cwd=ROOT)
        for name in "abc"
    ]
    seen, offset, reader = list[bytes](), Offset(0, 0), FileTopicReader(tmp_path)
    while True:
        running = any(writer.poll() is None for writer in writers)
        records, offset = reader.read(offset, max_records=50)
        seen += values(records)
        if not running and not records:
            break
    for writer in writers:
        assert writer.wait() == 0
    assert seen == read_all(tmp_path)
    by_writer = defaultdict(list)
    for line in seen:
        name, number, part, filling = line.split(b" ")
        assert filling == b"x" * (int(number) % 97)
        by_writer[name].append((int(number), int(part)))
    whole = [(number, part) for number in range(200) for part in range(3)]
    assert by_writer == {b"a": whole, b"b": whole, b"c": whole}
    appended_together = [tuple(line.split(b" ")[:2]) for line in seen]
    assert all(len(set(appended_together[at : at + 3])) == 1 for at in range(0, len(seen), 3))
    assert len(list(tmp_path.glob("segment-*.jsonl"))) > 5


def noting(flushed: list[str], root: Path) -> Callable[[int], None]:
    """A flush that only notes the path under the folder."""

    def fsync(descriptor: int) -> None:
        flushed.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), root))

    return fsync


def consumer(tmp_path: Path, fsync: Callable[[int], None]) -> FileConsumer:
    return FileConsumer(
        tmp_path / "telemetry", "file:///telemetry", "group", tmp_path / "positions", fsync=fsync
    )


def test_what_a_consumer_has_flushed_is_not_flushed_again(tmp_path: Path) -> None:
    flushed = list[str]()
    for line in (b"one", b"two"):
        append(tmp_path / "telemetry", line, segment_bytes=3)
    reader = consumer(tmp_path, noting(flushed, tmp_path))
    reader.commit(reader.poll(10, 0)[-1])
    flushed.clear()
    append(tmp_path / "telemetry", b"three")
    reader.commit(reader.poll(10, 0)[-1])
    assert [name for name in flushed if name.startswith("telemetry")] == [
        "telemetry/segment-00000001.jsonl"
    ]


def test_a_disk_that_does_not_flush_the_lines_gets_no_position(tmp_path: Path) -> None:
    def broken(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            raise OSError(5, "Input/output error")

    append(tmp_path / "telemetry", b"one")
    reader = consumer(tmp_path, broken)
    record = reader.poll(10, 0)[-1]
    with pytest.raises(SinkError, match=r"cannot be flushed \(Input/output error\); check the"):
        reader.commit(record)
    assert consumer(tmp_path, broken).poll(10, 0) == [record]


def test_a_segment_that_was_deleted_after_it_was_read_is_left_out(tmp_path: Path) -> None:
    flushed = list[str]()
    for line in (b"one", b"two"):
        append(tmp_path, line, segment_bytes=3)
    segment_path(tmp_path, 0).unlink()
    ReadFlush(tmp_path, noting(flushed, tmp_path)).between(Offset(0, 0), Offset(1, 4))
    assert flushed == ["segment-00000001.jsonl", "."]
