"""Rows of a micro-batch, and records that are too large for a row."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinks.wire.record_decoding import Position
from streaming.large_records import LargeRecords, spill_folder
from streaming.outputs.counts_of_micro_batch import KINDS
from streaming.outputs.output_topics import publish


@dataclass(frozen=True)
class Row:
    """One of `processor.OUTPUT`."""

    kind: str
    key: str
    value: bytes
    seq: int


@dataclass(frozen=True)
class Noted:
    kind: str
    notes: list[tuple[str, ...]]

    def publish(self, key: str, value: bytes) -> None:
        self.notes.append((self.kind, key, value.decode()))

    def flush(self) -> None:
        self.notes.append((self.kind, "stored"))

    def close(self) -> None:
        """Has nothing open."""


def test_rounds_follow_stored_commands_and_clusters_stay_in_fold_order() -> None:
    notes: list[tuple[str, ...]] = []
    rows = [
        Row("rounds", "d", b"d3", 3),
        Row("rejected", "", b"9", 9),
        *(Row("commands", "c", b"c%d" % number, number) for number in (10, 2)),
    ]
    publish({kind: Noted(kind, notes) for kind in KINDS}, rows)
    assert notes == [
        *(("commands", "c", "c2"), ("commands", "c", "c10"), ("commands", "stored")),
        *(("rounds", "d", "d3"), ("rounds", "stored")),
        *(("rejected", "", "9"), ("rejected", "stored")),
    ]


def place(offset: int) -> Position:
    return Position("kafka://k/telemetry", 0, offset)


@pytest.mark.parametrize("in_memory", [1, 10_000, 10_000_000])
def test_records_come_back_in_any_order_as_often_as_asked(in_memory: int) -> None:
    large = LargeRecords(in_memory=in_memory)
    values = [bytes([number]) * (1_000 * number) for number in range(1, 9)]
    for offset, value in enumerate(values):
        large.keep(place(offset), value, value)
        assert large.read(place(0), len(values[0])) == (values[0], values[0])
    for offset in (5, 0, 7, 5):
        value = values[offset]
        assert large.read(place(offset), len(value)) == (value, value)


def test_the_readable_form_of_a_record_is_kept_beside_it() -> None:
    large = LargeRecords()
    large.keep(place(0), b"{}", b'{"report":{}}')
    large.keep(place(1), b"", b'{"report":null}')
    assert large.read(place(0), 2) == (b"{}", b'{"report":{}}')
    assert large.read(place(1), 0) == (b"", b'{"report":null}')


def test_the_file_is_closed_with_its_records() -> None:
    before = open_files()
    large = LargeRecords(in_memory=10)
    assert open_files() == before
    large.keep(place(0), b"x" * 100, b"x" * 100)
    assert len(open_files() - before) == 1
    del large
    assert open_files() == before


def test_records_go_where_spark_writes_its_own(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert spill_folder({"SPARK_LOCAL_DIRS": f"{gone},{tmp_path}"}) == str(tmp_path)
    assert spill_folder({"SPARK_LOCAL_DIRS": str(gone)}) is None
    assert spill_folder({}) is None


def open_files() -> set[str]:
    """File descriptors of this process that belong to deleted files."""
    folder = Path("/proc/self/fd")
    found = {entry.name: os.readlink(entry) for entry in folder.iterdir() if entry.is_symlink()}
    return {name for name, target in found.items() if target.endswith("(deleted)")}
