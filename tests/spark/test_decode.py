"""Rows of telemetry become packed rows: one per cluster and Arrow batch, in any order, nothing lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sinks.limits import WireLimits
from sinks.wire import decode_rejected
from strategies.model import LoadReport, Sweep
from strategies.packing import unpack_record
from streaming.decode import Entry, decoder, pack_entries, unpack_entries
from tests.telemetry_lines import load_report, sweep

LIMITS = WireLimits()


def arrow(values: Sequence[bytes], sizes: Sequence[int] | None = None, segment: int = 0) -> Any:
    return pa.record_batch(
        {
            "topic": ["file:///t"] * len(values),
            "partition": pa.array([segment] * len(values), pa.int64()),
            "offset": pa.array([1000 * i for i in range(len(values))], pa.int64()),
            "value": pa.array(values, pa.binary()),
            "size": pa.array(sizes or [len(value) for value in values], pa.int64()),
        }
    )


def decoded(*batches: Any, limits: WireLimits = LIMITS) -> dict[str, list[Entry]]:
    """Entries per cluster, in topic order."""
    rows = [row for batch in decoder(limits)(batches) for row in batch.to_pylist()]
    return {
        cluster: unpack_entries(row["packed"] for row in rows if row["cluster"] == cluster) for cluster in {row["cluster"] for row in rows}
    }


def test_a_batch_gives_one_row_per_cluster() -> None:
    lines = [load_report("b1:1", 1), sweep(2, "b1:1", cluster="d"), load_report("b2:1", 3)]
    (batch,) = decoder(LIMITS)([arrow(lines)])
    assert sorted(row["cluster"] for row in batch.to_pylist()) == ["c", "d"]
    entries = decoded(arrow(lines))
    assert [type(unpack_record(entry.data)) for entry in entries["c"] + entries["d"]] == [LoadReport, LoadReport, Sweep]
    assert [entry.offset for entry in entries["c"]] == [0, 2000]


def test_what_cannot_be_decoded_travels_as_a_finished_row_of_its_cluster() -> None:
    entries = decoded(arrow([b"{", b'{"v":1,"kind":"sweep","cluster":"c"}', load_report()]))
    assert [(cluster, entry.rejected) for cluster in ("", "c") for entry in entries[cluster]] == [("", True), ("c", True), ("c", False)]
    assert decode_rejected(entries[""][0].data).code == "not-json"
    assert decode_rejected(entries["c"][0].data).code == "missing-field"


def test_a_record_cut_by_the_reader_is_rejected_with_its_true_size() -> None:
    entries = decoded(arrow([b'{"v":1,"cluster":"c"'], [50_000_000]))
    rejected = decode_rejected(entries[""][0].data)
    assert rejected.code == "too-large"
    assert "50000000" in rejected.text


def test_empty_batches_give_nothing() -> None:
    assert decoded(arrow([])) == {}


def test_entries_come_in_topic_order_whatever_order_the_rows_have() -> None:
    entries = [Entry(segment, offset, 0, False, b"%d" % offset) for segment in (2, 10) for offset in (0, 9, 10, 200)]
    shuffled = entries.copy()
    random.Random(5).shuffle(shuffled)
    rows = [packed for start in range(0, 8, 3) for packed in pack_entries(shuffled[start : start + 3])]
    assert unpack_entries(rows) == entries


def test_partitions_that_grow_side_by_side_are_merged_by_time_and_each_keeps_its_order() -> None:
    """Partition 1 has a clock that jumps back; the rejected record (no time) stays where it stands in its partition."""
    first = [Entry(0, 0, 10, False, b"a"), Entry(0, 1, 30, False, b"d"), Entry(0, 2, 50, False, b"g")]
    second = [Entry(1, 0, 20, False, b"b"), Entry(1, 1, 0, True, b"c"), Entry(1, 2, 40, False, b"e"), Entry(1, 3, 15, False, b"f")]
    merged = unpack_entries(pack_entries([*reversed(second), *first]))
    assert b"".join(entry.data for entry in merged) == b"abcdefg"


def test_packed_rows_do_not_grow_without_limit() -> None:
    big = [Entry(0, i, 0, False, bytes(5_000_000)) for i in range(5)]
    rows = list(pack_entries(big))
    assert len(rows) == 3
    assert unpack_entries(reversed(rows)) == big
