"""Record: a topic into a recording, whole or not at all, once or following what comes."""

import signal
import threading
from pathlib import Path

import pytest

from sinks.graceful_stop import Stop, stopping
from sinks.recordings.copy_topic import StopCondition, record
from sinks.recordings.json_lines import open_recording
from sinks.topics.files.topic import FileTopicWriter, TopicRecord
from sinks.topics.open_topics import Reader, open_reader
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.record_decoding import Position
from strategies.errors import SinkError
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer

LINES = [b'{"a":1}', b"", b"not json", b"\xff", b'{"b":2}']
ONCE, FOLLOW = StopCondition(), StopCondition(follow=True)


def topic(folder: Path, *blocks: list[bytes]) -> str:
    with FileTopicWriter(folder / "topic", segment_bytes=8) as writer:
        for block in blocks:
            writer.append(block)
    return file_topic_uri(folder / "topic")


def following(folder: Path) -> Reader:
    return open_reader(topic_of(file_topic_uri(folder / "topic")), follow=True)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_topic_of_several_segments_is_copied_byte_for_byte(tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"copy{ending}"
    answer = rebalancer("record", target, "--topic", topic(tmp_path, LINES[:2], LINES[2:]))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"{target}: 5 records, 28 bytes uncompressed\n"
    assert list(open_recording(target)) == LINES
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"copy{ending}", "topic"]


def test_the_telemetry_of_the_settings_is_the_default(tmp_path: Path) -> None:
    uri = topic(tmp_path, LINES)
    answer = rebalancer(
        "record", tmp_path / "copy.jsonl", "--json", env={"REBALANCER_TOPICS__TELEMETRY": uri}
    )
    assert answer.json == {
        "kind": "recorded",
        "v": 1,
        "file": str(tmp_path / "copy.jsonl"),
        "topic": uri,
        "records": 5,
        "bytes": 28,
    }


def test_an_existing_file_is_replaced_only_when_told_so(tmp_path: Path) -> None:
    target = tmp_path / "copy.jsonl"
    target.write_bytes(b"mine\n")
    uri = topic(tmp_path, LINES)
    refused = rebalancer("record", target, "--topic", uri)
    assert refused.code == 2
    assert "exists; --force replaces it" in refused.words
    assert target.read_bytes() == b"mine\n"
    assert rebalancer("record", target, "--topic", uri, "--force").code == 0
    assert list(open_recording(target)) == LINES


def test_until_nothing_comes_any_more_also_what_no_job_would_take(tmp_path: Path) -> None:
    lines = [*LINES, b"x" * (9 * 2**20)]
    given = ("--until-idle", "0.3", "--topic", topic(tmp_path, lines))
    assert rebalancer("record", tmp_path / "copy.jsonl", *given).code == 0
    assert list(open_recording(tmp_path / "copy.jsonl")) == lines


def test_following_until_it_is_stopped_completes_the_file(tmp_path: Path) -> None:
    topic(tmp_path, LINES[:1])
    target, stop, said = tmp_path / "copy.jsonl.gz", Stop(), threading.Event()
    follower = threading.Thread(
        target=record, args=(following(tmp_path), target, FOLLOW, stop, lambda _: said.set())
    )
    follower.start()
    try:
        assert said.wait(300)
        said.clear()
        topic(tmp_path, LINES[1:])
        assert said.wait(300)
        assert not target.exists()
    finally:
        stop.set()
        follower.join(300)

    assert list(open_recording(target)) == LINES


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_stop_and_is_remembered(tmp_path: Path, number: signal.Signals) -> None:
    topic(tmp_path, LINES)
    before, target = signal.getsignal(number), tmp_path / "copy.jsonl"
    with stopping() as stop:
        reader = following(tmp_path)
        done = record(reader, target, FOLLOW, stop, lambda _: signal.raise_signal(number))
    assert (done.records, done.stopped_by) == (5, number.name)
    assert list(open_recording(target)) == LINES
    assert signal.getsignal(number) == before


class Breaking:
    """A topic that is lost after its first records."""

    def __init__(self, *blocks: list[bytes]) -> None:
        self._blocks = list(blocks)

    def read(self) -> list[TopicRecord]:
        if not self._blocks:
            raise SinkError("the topic is gone")
        return [
            TopicRecord(Position("t", 0, number), value, len(value))
            for number, value in enumerate(self._blocks.pop(0))
        ]

    def close(self) -> None:
        """Nothing to let go of."""


def test_what_was_recorded_while_waiting_for_more_outlasts_the_topic(tmp_path: Path) -> None:
    source, target = Breaking(LINES[:2], LINES[2:]), tmp_path / "copy.jsonl"
    done = record(source, target, FOLLOW, Stop(), lambda _: None)
    assert (done.records, str(done.lost)) == (5, "the topic is gone")
    assert list(open_recording(target)) == LINES


@pytest.mark.parametrize(
    ("blocks", "until"), [([LINES], ONCE), ([], FOLLOW)], ids=["a copy", "nothing yet"]
)
def test_half_a_copy_is_none(
    tmp_path: Path, blocks: list[list[bytes]], until: StopCondition
) -> None:
    with pytest.raises(SinkError, match="the topic is gone"):
        record(Breaking(*blocks), tmp_path / "copy.jsonl", until, Stop(), lambda _: None)
    assert list(tmp_path.iterdir()) == []
