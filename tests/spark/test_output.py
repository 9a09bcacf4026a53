"""What the job writes to file topics is on the disk before its positions depend on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sinks.topics.files.topic import FileTopicReader
from sinks.topics.uri import file_topic_uri, parse_topic
from streaming.outputs.output import FileTopics
from streaming.outputs.output_counts import KINDS


@dataclass(frozen=True)
class Row:
    """One of `processor.OUTPUT`."""

    kind: str
    key: str = "c"
    value: bytes = b"{}"
    seq: int = 0


def test_every_topic_is_flushed_when_append_returns(tmp_path: Path) -> None:
    flushed: list[str] = []

    def fsync(descriptor: int) -> None:
        flushed.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))

    topics = FileTopics({kind: parse_topic(file_topic_uri(tmp_path / kind)) for kind in KINDS}, 1_000, fsync)
    topics.append([Row(kind) for kind in KINDS])
    topics.close()
    for kind in KINDS:
        assert [record.value for record in FileTopicReader(tmp_path / kind).read()[0]] == [b"{}"]
        at = flushed.index(f"{kind}/segment-00000000.jsonl")
        assert flushed[at + 1 : at + 3] == [kind, "."]
