"""Rows of telemetry become records in topic order, in one stage or over an exchange, in any order
of rows, nothing lost.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from sinks.secret_file import Secret
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.raw_broker_reports import SourceSettings
from sinks.wire.record_decoding import (
    LARGE_BYTES,
    LARGEST_ORIGINAL,
    Peeked,
    Position,
    WireLimits,
    decode,
    decode_rejected,
    unpack_origin,
)
from sinks.wire.signing_keys import SigningKey, SigningSettings
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import LoadReport, Sweep, TelemetryRecord
from strategies.cluster.packed_records import pack_record
from streaming.pack_and_decode_records import (
    PackedRecord,
    Unread,
    pack_records,
    packer,
    reading,
    unpacking,
)
from streaming.processor import by_cluster
from streaming.state.shards import shard_of
from tests.telemetry_lines import intent, load_report, sweep

LIMITS = WireLimits()


def arrow(values: Sequence[bytes], sizes: Sequence[int] | None = None, topic: str = "t") -> Any:
    return pa.record_batch(
        {
            "topic": [topic] * len(values),
            "partition": pa.array([0] * len(values), pa.int64()),
            "offset": pa.array([1000 * i for i in range(len(values))], pa.int64()),
            "value": pa.array(values, pa.binary()),
            "size": pa.array(sizes or [len(value) for value in values], pa.int64()),
        }
    )


def rows(*batches: Any) -> list[Row]:
    return [Row(**row) for batch in batches for row in batch.to_pylist()]


def both_ways(
    batch: Any,
    source: SourceSettings = SourceSettings(),
    signing: SigningSettings = SigningSettings(),
    *,
    side_by_side: bool = False,
) -> Iterable[list[Unread]]:
    """The records as they reach the stateful task in one stage, and behind an exchange."""
    read = reading(LIMITS, source, side_by_side=side_by_side, signing=signing)
    yield list(read(rows(batch)))
    unpack = unpacking(LIMITS, side_by_side=side_by_side, signing=signing)
    yield list(unpack(rows(*packer(2, source)([batch]))))


Decoded = dict[str, list[TelemetryRecord | OutputRow]]


def decoded(batch: Any, **settings: Any) -> Decoded:
    """Records per cluster, in topic order; the same on both ways to the stateful stage."""
    one, other = (
        {name: [record.decoded() for record in some] for name, some in by_cluster(way).items()}
        for way in both_ways(batch, **settings)
    )
    assert told(one) == told(other)
    return one


def told(clusters: Decoded) -> object:
    """All that is to be equal; tables of numbers cannot be compared as they are."""
    return {
        cluster: [one if isinstance(one, OutputRow) else pack_record(one) for one in some]
        for cluster, some in clusters.items()
    }


def rejected(one: TelemetryRecord | OutputRow) -> Any:
    assert isinstance(one, OutputRow)
    return decode_rejected(one.value)


def test_a_batch_gives_one_packed_row_per_shard() -> None:
    lines = [load_report("b1:1", 1), sweep(2, "b1:1", cluster="d"), load_report("b2:1", 3)]
    (batch,) = packer(2)([arrow(lines)])
    shards = {shard_of("c", 2), shard_of("d", 2)}
    assert sorted(row["shard"] for row in batch.to_pylist()) == sorted(shards)
    found = decoded(arrow(lines))
    assert list(found) == ["c", "d"]
    assert [type(one) for one in found["c"] + found["d"]] == [LoadReport, LoadReport, Sweep]
    brokers = [one.broker for one in found["c"] if isinstance(one, LoadReport)]
    assert brokers == ["b1:1", "b2:1"]


def test_intents_are_checked_where_they_are_decoded(tmp_path: Path) -> None:
    """With the key in a file, on both ways to the stateful stage; without one, none is checked."""
    (tmp_path / "key").write_text("i" * 32, "utf-8")
    key, signing = SigningKey(Secret(b"i" * 32)), SigningSettings("", "", str(tmp_path / "key"))
    batch = arrow([intent(), key.sign(intent()), key.sign(intent()).replace(b"Zo", b"Jo")])
    unsigned, signed, wrong = decoded(batch, signing=signing)["c"]
    assert isinstance(signed, Intent)
    assert rejected(unsigned).code == "intent-unsigned"
    assert rejected(wrong).code == "intent-wrong-signature"
    assert all(isinstance(one, Intent) for one in decoded(batch)["c"])


def test_the_time_of_an_intent_orders_nothing_and_no_quota_applies_to_it() -> None:
    """Where partitions grow at the same time, its own does not hold back the others."""
    batch = arrow([load_report(), intent(10_000)])
    found = [
        (report.ts > 0, report.has_quota, asked.ts, asked.has_quota)
        for report, asked in both_ways(batch, side_by_side=True)
    ]
    assert found == 2 * [(True, True, 0, False)]


def test_what_cannot_be_decoded_is_a_rejected_row_of_its_cluster() -> None:
    found = decoded(arrow([b"{", b'{"v":1,"kind":"sweep","cluster":"c"}', load_report()]))
    assert rejected(found[""][0]).code == "not-json"
    assert rejected(found["c"][0]).code == "missing-field"
    assert isinstance(found["c"][1], LoadReport)


def test_raw_records_get_who_and_when_from_around_them_and_are_rejected_as_they_came() -> None:
    report = json.dumps(json.loads(load_report())["report"]).encode()
    values = [report, report, b"nonsense", sweep(2, "b:1")]
    headers = [{"key": "broker", "value": b"b:2"}, {"key": "ts", "value": b"7"}]
    batch = arrow(values)
    for name, column in (
        ("key", [b"d/b:1", b"d", None, b"d"]),
        ("headers", [None, headers, [], None]),
        ("ts", [5, 6, 6, 6]),
    ):
        batch = batch.append_column(name, pa.array(column))
    records = decoded(batch, source=SourceSettings("raw"))
    reports = [(one.broker, one.ts) for one in records["d"] if isinstance(one, LoadReport)]
    assert reports == [("b:1", 5), ("b:2", 7)]
    assert [type(one) for one in records["c"]] == [Sweep]
    (row,) = map(rejected, records[""])
    assert (row.code, row.original) == ("not-json", b"nonsense")


def test_a_record_cut_by_the_reader_is_rejected_with_its_true_size() -> None:
    row = rejected(decoded(arrow([b'{"v":1,"cluster":"c"'], [50_000_000]))[""][0])
    assert row.code == "too-large"
    assert "50000000" in row.text


def test_empty_batches_give_nothing() -> None:
    assert decoded(arrow([])) == {}


def unread(partition: int, offset: int, ts: int = 0, value: bytes = b"") -> Unread:
    (one,) = reading(LIMITS)([Row(topic="t", partition=0, offset=0, value=value, size=len(value))])
    return one._replace(partition=partition, offset=offset, ts=ts, cluster="c")


def test_records_come_in_topic_order_whatever_order_the_rows_have() -> None:
    places = [(segment, offset) for segment in (2, 10) for offset in (0, 9, 10, 200)]
    shuffled = [unread(*place) for place in places]
    random.Random(5).shuffle(shuffled)
    assert [one[:2] for one in by_cluster(shuffled)["c"]] == places


def test_partitions_that_grow_side_by_side_are_merged_by_time_and_each_keeps_its_order() -> None:
    """Partition 1 has a clock that jumps back; the rejected record (no time) stays where it stands
    in its partition.
    """
    first = [unread(0, i, ts, b"adg"[i : i + 1]) for i, ts in enumerate((10, 30, 50))]
    second = [unread(1, i, ts, b"bcef"[i : i + 1]) for i, ts in enumerate((20, 0, 40, 15))]
    merged = by_cluster([*reversed(second), *first])["c"]
    assert b"".join(one.value for one in merged) == b"abcdefg"


def test_packed_rows_do_not_grow_without_limit() -> None:
    big = [
        PackedRecord(Position("t", 0, i), Peeked(""), bytes(5_000_000), None, 5_000_000)
        for i in range(5)
    ]
    packed = list(pack_records(big))
    assert len(packed) == 3
    records = by_cluster(unpacking(LIMITS)([Row(packed=row) for row in reversed(packed)]))
    assert [one.offset for one in records[""]] == [0, 1, 2, 3, 4]


def test_a_record_of_which_only_the_beginning_came_is_read_again_when_it_is_decoded(
    tmp_path: Path,
) -> None:
    whole, topic = load_report("b0:1", 1), f"file://{tmp_path}"
    with FileTopicWriter(tmp_path) as writer:
        writer.append([whole])
    ways = [*both_ways(arrow([whole[:100]], [len(whole)], topic))]
    assert [(one.arrival.size, one.value) for (one,) in ways] == 2 * [(len(whole), whole[:100])]
    for (one,) in ways:
        assert told({"c": [one.decoded()]}) == told(decoded(arrow([whole], topic=topic)))


@pytest.mark.parametrize("legal", [True, False])
def test_a_large_record_waits_in_a_file_until_it_is_decoded(legal: bool) -> None:
    bundles = (f"t/ns/0x{i:08x}_0x{i + 1:08x}" for i in range(1_500))
    large = load_report("b0:1", 1, dict.fromkeys(bundles, 1.0))
    large = large if legal else large[:-1]
    assert len(large) > LARGE_BYTES
    for some in both_ways(arrow([load_report("b0:1", 0), large, load_report("b0:1", 2)])):
        assert [one.value == b"" for one in some] == [False, True, False]
        assert some[1].arrival.size == len(large)
        found = some[1].decoded()
        if legal:
            assert isinstance(found, LoadReport)
            assert unpack_origin(found.origin).value == large[:LARGEST_ORIGINAL]
            expected = pack_record(decode(large, b"", LIMITS))
            assert pack_record(replace(found, origin=b"")) == expected
        else:
            assert rejected(found).code == "not-json"
