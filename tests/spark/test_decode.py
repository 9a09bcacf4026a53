"""Rows of telemetry become records in topic order, in one stage or over an exchange, in any order
of rows, nothing lost.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from sinks.secret_file import Secret
from sinks.wire.codec import decode, decode_rejected
from sinks.wire.origin import LARGEST_ORIGINAL, unpack_origin
from sinks.wire.peek import LARGE_BYTES
from sinks.wire.position import Position
from sinks.wire.raw import SourceSettings
from sinks.wire.signing import SigningKey, SigningSettings
from sinks.wire.size_limits import WireLimits
from strategies.cluster.intent_contract import Intent
from strategies.cluster.model import LoadReport, Sweep
from strategies.cluster.packing import pack_record
from streaming.decode import Decoded, DecodedEntry, decoding, pack_entries, packer, unpacking
from streaming.processor import by_cluster
from streaming.state.shards import shard_of
from tests.telemetry_lines import intent, load_report, sweep

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


def rows(*batches: Any) -> list[Row]:
    return [Row(**row) for batch in batches for row in batch.to_pylist()]


def decoded(
    *batches: Any, source: SourceSettings = SourceSettings()
) -> Mapping[str, list[Decoded]]:
    """Records per cluster, in topic order; the same on both ways to the stateful stage."""
    in_place = by_cluster(opened(decoding(LIMITS, source)(rows(*batches))))
    behind_an_exchange = by_cluster(
        opened(unpacking(LIMITS)(rows(*packer(LIMITS, 2, source)(batches))))
    )
    assert told(in_place) == told(behind_an_exchange)
    return in_place


def opened(some: Iterable[Decoded]) -> list[Decoded]:
    """The records as a cluster's quota lets them pass."""
    return [one if one.sealed is None else one.sealed.opened() for one in some]


def told(clusters: Mapping[str, list[Decoded]]) -> object:
    """All that is to be equal; tables of numbers cannot be compared as they are."""
    return [
        (
            one.partition,
            one.offset,
            one.ts,
            one.cluster,
            one.rejected,
            one.record and pack_record(replace(one.record, origin=b"")),
        )
        for some in clusters.values()
        for one in some
    ]


def test_a_batch_gives_one_packed_row_per_cluster_for_its_shard() -> None:
    lines = [load_report("b1:1", 1), sweep(2, "b1:1", cluster="d"), load_report("b2:1", 3)]
    (batch,) = packer(LIMITS, 2)([arrow(lines)])
    assert sorted((row["cluster"], row["shard"]) for row in batch.to_pylist()) == [
        ("c", shard_of("c", 2)),
        ("d", shard_of("d", 2)),
    ]
    records = decoded(arrow(lines))
    assert [type(one.record) for one in records["c"] + records["d"]] == [
        LoadReport,
        LoadReport,
        Sweep,
    ]
    assert [one.offset for one in records["c"]] == [0, 2000]


def test_intents_are_checked_where_they_are_decoded(tmp_path: Path) -> None:
    """With the key in a file, on both ways to the stateful stage; without one, none is checked."""
    (tmp_path / "key").write_text("i" * 32, "utf-8")
    key, signing = SigningKey(Secret(b"i" * 32)), SigningSettings("", "", str(tmp_path / "key"))
    batch = arrow([intent(), key.sign(intent()), key.sign(intent()).replace(b"Zo", b"Jo")])

    for some in (
        decoding(LIMITS, signing=signing)(rows(batch)),
        unpacking(LIMITS, signing=signing)(rows(*packer(LIMITS, 2, signing=signing)([batch]))),
    ):
        unsigned, signed, wrong = some
        assert isinstance(signed.record, Intent)
        assert decode_rejected(unsigned.rejected).code == "intent-unsigned"
        assert decode_rejected(wrong.rejected).code == "intent-wrong-signature"
    assert all(one.record is not None for one in decoded(batch)["c"])


def test_the_time_of_an_intent_orders_nothing() -> None:
    """Where partitions grow at the same time, its own does not hold back the others."""
    far = intent(10_000)
    found = list(opened(decoding(LIMITS, side_by_side=True)(rows(arrow([load_report(), far])))))
    assert len(found) == 2
    for some in found:
        assert (some.ts > 0) == isinstance(some.record, LoadReport)


def test_clusters_come_in_order_of_their_names() -> None:
    assert list(decoded(arrow([load_report(cluster=name) for name in "bca"]))) == ["a", "b", "c"]


def test_what_cannot_be_decoded_travels_as_a_finished_row_of_its_cluster() -> None:
    records = decoded(arrow([b"{", b'{"v":1,"kind":"sweep","cluster":"c"}', load_report()]))
    assert [(cluster, one.record is None) for cluster in ("", "c") for one in records[cluster]] == [
        ("", True),
        ("c", True),
        ("c", False),
    ]
    assert decode_rejected(records[""][0].rejected).code == "not-json"
    assert decode_rejected(records["c"][0].rejected).code == "missing-field"


def test_raw_records_get_who_and_when_from_around_them_and_are_rejected_as_they_came() -> None:
    report = json.dumps(json.loads(load_report())["report"]).encode()
    values = [report, report, b"nonsense", sweep(2, "b:1")]
    batch = arrow(values)
    for name, column in (
        ("key", [b"d/b:1", b"d", None, b"d"]),
        (
            "headers",
            [None, [{"key": "broker", "value": b"b:2"}, {"key": "ts", "value": b"7"}], [], None],
        ),
        ("ts", [5, 6, 6, 6]),
    ):
        batch = batch.append_column(name, pa.array(column))
    records = decoded(batch, source=SourceSettings("raw"))
    assert [
        (one.record.broker, one.record.ts)
        for one in records["d"]
        if isinstance(one.record, LoadReport)
    ] == [("b:1", 5), ("b:2", 7)]
    assert [type(one.record) for one in records["c"]] == [Sweep]
    (rejected,) = [decode_rejected(one.rejected) for one in records[""]]
    assert (rejected.code, rejected.original) == ("not-json", b"nonsense")


def test_a_record_cut_by_the_reader_is_rejected_with_its_true_size() -> None:
    records = decoded(arrow([b'{"v":1,"cluster":"c"'], [50_000_000]))
    rejected = decode_rejected(records[""][0].rejected)
    assert rejected.code == "too-large"
    assert "50000000" in rejected.text


def test_the_original_comes_along_whichever_way_a_record_takes() -> None:
    batch = arrow([load_report()])
    for some in (
        decoding(LIMITS)(rows(batch)),
        unpacking(LIMITS)(rows(*packer(LIMITS, 2)([batch]))),
    ):
        (one,) = opened(some)
        assert one.record is not None
        assert unpack_origin(one.record.origin).value == load_report()


def test_empty_batches_give_nothing() -> None:
    assert decoded(arrow([])) == {}


def test_records_come_in_topic_order_whatever_order_the_rows_have() -> None:
    records = [
        Decoded(segment, offset, 0, "c", None, b"")
        for segment in (2, 10)
        for offset in (0, 9, 10, 200)
    ]
    shuffled = records.copy()
    random.Random(5).shuffle(shuffled)
    assert by_cluster(shuffled) == {"c": records}


def test_partitions_that_grow_side_by_side_are_merged_by_time_and_each_keeps_its_order() -> None:
    """Partition 1 has a clock that jumps back; the rejected record (no time) stays where it stands
    in its partition.
    """
    first = [
        Decoded(0, 0, 10, "c", None, b"a"),
        Decoded(0, 1, 30, "c", None, b"d"),
        Decoded(0, 2, 50, "c", None, b"g"),
    ]
    second = [
        Decoded(1, i, ts, "c", None, value)
        for i, (ts, value) in enumerate([(20, b"b"), (0, b"c"), (40, b"e"), (15, b"f")])
    ]
    merged = by_cluster([*reversed(second), *first])["c"]
    assert b"".join(one.rejected for one in merged) == b"abcdefg"


def test_packed_rows_do_not_grow_without_limit() -> None:
    big = [DecodedEntry(0, i, 0, True, bytes(5_000_000)) for i in range(5)]
    packed = list(pack_entries(big))
    assert len(packed) == 3
    records = by_cluster(
        unpacking(LIMITS)([Row(cluster="c", packed=row) for row in reversed(packed)])
    )
    assert [(one.offset, one.rejected) for one in records["c"]] == [
        (entry.offset, entry.data) for entry in big
    ]


def test_a_record_of_which_only_the_beginning_came_is_read_again_when_it_is_opened() -> None:
    whole = load_report("b0:1", 1)
    asked: list[tuple[object, int]] = []

    def read_again(place: Position, size: int) -> bytes:
        asked.append((place, size))
        return whole

    batch = arrow([whole[:100]], [len(whole)], segment=3)
    in_place = decoding(LIMITS, read_again=read_again)(rows(batch))
    behind_an_exchange = unpacking(LIMITS, read_again=read_again)(rows(*packer(LIMITS, 2)([batch])))
    for (one,) in (list(in_place), list(behind_an_exchange)):
        assert one.sealed is not None
        assert one.sealed.arrival.size == len(whole)
        assert asked == []
        assert told({"c": opened([one])}) == told(decoded(arrow([whole], segment=3)))
        assert asked.pop() == (Position("file:///t", 3, 0), len(whole))


def test_a_large_record_waits_in_a_file_until_it_is_opened() -> None:
    bundles = (f"t/ns/0x{i:08x}_0x{i + 1:08x}" for i in range(1_500))
    large = load_report("b0:1", 1, dict.fromkeys(bundles, 1.0))
    assert len(large) > LARGE_BYTES
    batch = arrow([load_report("b0:1", 0), large, load_report("b0:1", 2)])
    expected = pack_record(decode(large, b"", LIMITS, None))

    behind_an_exchange = unpacking(LIMITS)(rows(*packer(LIMITS, 2)([batch])))
    for some in (list(decoding(LIMITS)(rows(batch))), list(behind_an_exchange)):
        assert [one.sealed is not None and one.sealed.value == b"" for one in some] == [
            False,
            True,
            False,
        ]
        kept = some[1].sealed
        assert kept is not None
        assert kept.arrival.size == len(large)
        record = kept.opened().record
        assert isinstance(record, LoadReport)
        assert unpack_origin(record.origin).value == large[:LARGEST_ORIGINAL]
        assert pack_record(replace(record, origin=b"")) == expected
