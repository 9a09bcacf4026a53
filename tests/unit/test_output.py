"""What the job writes to file topics: on the disk before its positions depend on it, and a round
after the commands that it names.
"""

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

    topics = FileTopics(
        {kind: parse_topic(file_topic_uri(tmp_path / kind)) for kind in KINDS}, fsync=fsync
    )
    topics.append([Row(kind) for kind in KINDS])
    topics.close()
    for kind in KINDS:
        assert [record.value for record in FileTopicReader(tmp_path / kind).read()[0]] == [b"{}"]
        at = flushed.index(f"{kind}/segment-00000000.jsonl")
        assert flushed[at + 1 : at + 3] == [kind, "."]


def test_a_reader_that_sees_a_round_finds_its_commands_and_clusters_stay_in_fold_order(
    tmp_path: Path,
) -> None:
    begun: list[str] = []

    def fsync(descriptor: int) -> None:
        begun.extend(
            kind
            for kind in folders
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{tmp_path / kind}/")
        )

    folders = {kind: tmp_path / kind for kind in ("rejected", "rounds", "commands")}
    topics = FileTopics(
        {kind: parse_topic(file_topic_uri(folder)) for kind, folder in folders.items()},
        fsync=fsync,
    )
    begun.clear()
    topics.append(
        [
            Row("rounds", "d", b"d3", 3),
            Row("rejected", "c", b"c9", 9),
            *(Row("commands", "c", b"c%d" % n, n) for n in (10, 2)),
        ]
    )
    topics.close()

    assert list(dict.fromkeys(begun)) == ["commands", "rounds", "rejected"]
    assert [record.value for record in FileTopicReader(folders["commands"]).read()[0]] == [
        b"c2",
        b"c10",
    ]
