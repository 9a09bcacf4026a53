"""What becomes of legal telemetry: every kind, Pulsar's oddities, and what makes a report a new
sample.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sinks.recordings.json_lines import open_recording
from sinks.wire.codec import cluster_of, decode
from sinks.wire.origin import pack_origin
from sinks.wire.position import Position
from sinks.wire.size_limits import WireLimits, clip
from strategies.cluster import model
from strategies.errors import WireError
from strategies.figures.usage import percent
from tests.changed_records import changed, without
from tests.telemetry_lines import (
    T0,
    broker_load,
    bundle,
    line,
    load_report,
    one_of_each,
    outcome,
    sweep,
    top_bundles,
)

RECORDINGS = Path(__file__).parents[2].parent / "shared" / "recordings"


def read(record: bytes) -> model.TelemetryRecord:
    return decode(record, b"")


def report_of(record: bytes) -> model.LoadReport:
    report = read(record)
    assert isinstance(report, model.LoadReport)
    return report


def test_a_load_report_gives_figures_and_a_table_of_its_bundles() -> None:
    report = report_of(load_report("b1:8080", 1, {bundle(3): 100.0, bundle(1): 50.0}, cpu=70.0))
    assert (report.cluster, report.broker, report.ts) == ("c", "b1:8080", T0 + 1000)
    assert report.figures is not None
    assert report.figures.cpu == model.Resource(70.0, 100.0)
    assert report.figures.traffic == model.Traffic(150.0, 150.0, 153600.0, 153600.0)
    assert report.figures.bundle_count == 2
    assert report.bundles is not None
    assert report.bundles.names == (bundle(3), bundle(1))
    assert report.bundles.traffic.tolist() == [
        [100.0, 100.0, 102400.0, 102400.0],
        [50.0, 50.0, 51200.0, 51200.0],
    ]
    assert report.bundles.topics.tolist() == [3, 3]
    assert report.bundles.sessions.tolist() == [3, 3]
    assert report.bundles.traffic.dtype == np.dtype(np.float64)
    assert report.bundles.topics.dtype == report.bundles.sessions.dtype == np.dtype(np.int64)


def test_a_broker_without_bundles_has_an_empty_table_of_four_columns() -> None:
    report = report_of(load_report(loads={}))
    assert report.bundles is not None
    assert report.bundles.traffic.shape == (0, 4)
    assert report.bundles.names == ()


def test_bundles_without_figures_are_counted_and_not_in_the_table() -> None:
    record = changed(load_report(), "report", "bundles", to=[bundle(0), bundle(1), bundle(2)])
    report = report_of(record)
    assert report.figures is not None
    assert report.figures.bundle_count == 3
    assert report.bundles is not None
    assert len(report.bundles.names) == 2


def test_without_the_list_the_bundles_with_figures_are_counted() -> None:
    report = report_of(without(load_report(), "report", "bundles"))
    assert report.figures is not None
    assert report.figures.bundle_count == 2


def test_an_extensible_broker_sends_figures_and_bundles_apart() -> None:
    load, top = report_of(broker_load(bundle_count=7)), report_of(top_bundles())
    assert load.figures is not None
    assert (load.figures.bundle_count, load.bundles) == (7, None)
    assert top.bundles is not None
    assert (top.bundles.names, top.figures) == ((bundle(0), bundle(1)), None)


def test_an_extensible_broker_sends_its_own_averages_and_they_are_no_sample() -> None:
    plain = report_of(broker_load())
    averaged = changed(broker_load(), "report", "weightedMaxEMA", to=0.25)
    averaged = changed(
        changed(averaged, "report", "msgThroughputEMA", to=1e6), "report", "updatedAt", to=T0 - 5
    )
    told = report_of(averaged)
    assert plain.figures is not None
    assert told.figures is not None
    assert (
        plain.figures.usage_average,
        plain.figures.throughput_average,
        plain.figures.updated_at_ms,
    ) == (None, None, None)
    assert (
        told.figures.usage_average,
        told.figures.throughput_average,
        told.figures.updated_at_ms,
    ) == (0.25, 1e6, T0 - 5)
    assert told.digest == plain.digest


def test_null_withdraws_figures_and_empties_the_table() -> None:
    assert read(line("broker-load-data", broker="b1:8080", report=None)) == model.Tombstone(
        "c", "b1:8080", T0
    )
    withdrawn = report_of(line("top-bundles-load-data", broker="b1:8080", report=None))
    assert withdrawn.bundles is not None
    assert (withdrawn.bundles.names, withdrawn.figures) == ((), None)


def test_the_other_kinds() -> None:
    assert read(sweep(2, "b1:1", "b2:1", missing={"b3:1": "refused"})) == model.Sweep(
        "c", T0 + 2000, 2, ("b1:1", "b2:1"), {"b3:1": "refused"}
    )
    assert read(sweep(2)) == model.Sweep("c", T0 + 2000, 2, (), {})
    said = sweep(2, "b1:1", missing={"b2:1": "withdrew"})[:-1]
    assert read(said + b',"answering":["b2:1"],"leader":"b1:1","shedding":true}') == model.Sweep(
        "c",
        T0 + 2000,
        2,
        ("b1:1",),
        {"b2:1": "withdrew"},
        answering=("b2:1",),
        leader="b1:1",
        shedding=True,
    )
    applied = model.Outcome("c-1", "c", bundle(0), "applied", None, "b1:8080", "b2:8080", 12, T0)
    assert read(outcome(3)) == model.OutcomeReport("c", T0 + 3000, applied)
    assert read(b'{"v":1,"kind":"note","cluster":"c"}') == model.Note("c", 0)


def test_policies_are_kept_as_text_in_their_own_order() -> None:
    """The first isolation policy whose pattern matches governs a namespace, so their order means
    something.
    """
    isolation = {"z": {"namespaces": ["t/.*"]}, "a": {"namespaces": ["t/n.*"]}}
    record = read(line("policies", report={"topic_counts": {bundle(0): 3}, "isolation": isolation}))
    assert isinstance(record, model.Policies)
    assert record.snapshot == (
        '{"topic_counts":{"t/ns/0x00000000_0x01000000":3},"isolation":{"z":{"namespaces":["t/.*"]},"a":{"namespaces":["t/n.*"]}}}'
    )


@pytest.mark.parametrize("record", one_of_each())
def test_fields_nobody_knows_are_ignored(record: bytes) -> None:
    assert str(read(changed(record, "surprise", to={"deep": [1, {"x": None}]}))) == str(
        read(record)
    )


@pytest.mark.parametrize("record", one_of_each())
def test_every_kind_carries_its_origin_along(record: bytes) -> None:
    origin = pack_origin(Position("telemetry", 2, 77), record)
    assert decode(record, origin).origin == origin


@pytest.mark.parametrize("limit", [-1000.0, -2000.0, -3000, -8000.0])
def test_network_cards_of_unknown_speed_are_a_resource_without_a_limit(limit: float) -> None:
    """What real brokers send from containers, −1000 for each card."""
    report = report_of(
        changed(load_report(), "report", "bandwidthIn", to={"usage": 0.028, "limit": limit})
    )
    assert report.figures is not None
    assert percent(report.figures.bandwidth_in) == 0.0


def test_a_resource_that_was_not_measured_yet_is_legal() -> None:
    report = report_of(changed(load_report(), "report", "cpu", to={"usage": -1.0, "limit": -1}))
    assert report.figures is not None
    assert report.figures.cpu == model.Resource(-1.0, -1.0)


@pytest.mark.parametrize(
    "name",
    [
        "pulsar/10.0.0.1:8080/0x00000000_0xffffffff",
        "pulsar/cluster-1/10.0.0.1:8080/0x00000000_0xffffffff",
        "sla-monitor/10.0.0.1:8080/0x00000000_0xffffffff",
        "bücher/größe ⛵/0x00000000_0x80000000",
        "t/ns/0xF0000000_0xFFFFFFFF",
        "t/ns/0xf0000000_0x100000000",
    ],
)
def test_names_of_every_sort_are_legal(name: str) -> None:
    report = report_of(load_report(loads={name: 1.0}))
    assert report.bundles is not None
    assert report.bundles.names == (name,)


@pytest.mark.parametrize(
    "broker", ["b1:8080", "[::1]:8080", "bröker-1.例え:8080", "10.0.0.1:65535"]
)
def test_brokers_of_every_sort_are_legal(broker: str) -> None:
    assert report_of(load_report(broker)).broker == broker


def test_unicode_may_come_escaped_or_plain() -> None:
    plain = load_report(cluster="köln ⛵")
    escaped = json.dumps(json.loads(plain)).encode()
    assert plain != escaped
    assert read(plain).cluster == read(escaped).cluster == "köln ⛵"


def test_java_writes_exponents_and_integers_where_it_likes() -> None:
    record = (
        load_report()
        .replace(b'"limit":10000000.0', b'"limit":1.0E7')
        .replace(b'"usage":50.0', b'"usage":50')
    )
    assert report_of(record).digest == report_of(load_report()).digest


def test_of_a_key_that_is_there_twice_the_last_one_counts() -> None:
    """As in Jackson and nearly every other reader; a broker cannot write such a record."""
    twice = load_report().replace(b'"ts":', b'"ts":5,"ts":', 1)
    assert read(twice).ts == T0


def test_a_line_may_end_as_on_windows() -> None:
    assert report_of(load_report() + b"\r").digest == report_of(load_report()).digest


def test_the_digest_changes_with_cpu_traffic_and_bundles_only() -> None:
    base, digest = load_report(), report_of(load_report()).digest
    assert len(digest) == 16
    for same in (
        changed(base, "report", "memory", "usage", to=1.0),
        changed(base, "report", "lastUpdate", to=1),
        changed(base, "ts", to=1),
        changed(base, "report", "msgRateIn", to=json.loads(base)["report"]["msgRateIn"]),
    ):
        assert report_of(same).digest == digest
    for other in (
        changed(base, "report", "cpu", "usage", to=50.000001),
        changed(base, "report", "cpu", "limit", to=200.0),
        changed(base, "report", "msgRateOut", to=1.0),
        changed(base, "report", "lastStats", bundle(0), "msgThroughputIn", to=1.0),
        changed(base, "report", "lastStats", bundle(0), "topics", to=4),
        changed(base, "report", "lastStats", bundle(0), "consumerCount", to=9),
        load_report(loads={bundle(1): 50.0, bundle(0): 100.0}),
        base.replace(bundle(1).encode(), bundle(7).encode()),
    ):
        assert report_of(other).digest != digest


def test_minus_zero_is_zero() -> None:
    zero, minus = (changed(load_report(), "report", "msgRateIn", to=value) for value in (0.0, -0.0))
    assert b"-0.0" in minus
    assert report_of(zero).digest == report_of(minus).digest


def test_a_record_is_too_large_by_its_true_size_even_when_it_was_cut() -> None:
    record, limits = load_report(), WireLimits(max_record_bytes=5000, kept_bytes=100)
    decode(record, b"", limits)
    origin = pack_origin(Position("telemetry", 0, 0), record[:100], 5001)
    with pytest.raises(
        WireError, match=r"5001 bytes, more than wire\.max_record_bytes = 5000"
    ) as raised:
        decode(record[:100], origin, limits)
    assert raised.value.code == "too-large"


def test_a_record_as_large_as_the_limit_is_whole_and_a_larger_one_is_cut() -> None:
    record = load_report()
    decode(record, b"", WireLimits(max_record_bytes=len(record)))
    with pytest.raises(WireError, match="more than"):
        decode(record, b"", WireLimits(max_record_bytes=len(record) - 1))
    at_most = bytes(8 * 2**20)
    assert (len(clip(at_most, WireLimits())), len(clip(at_most + b" ", WireLimits()))) == (
        8 * 2**20,
        65_536,
    )


def test_the_cluster_is_found_whatever_else_is_wrong() -> None:
    assert cluster_of(without(load_report(cluster="köln"), "report")) == "köln"
    assert cluster_of(b'{"cluster":"c","v":"nonsense"}') == "c"
    for record in (
        b"",
        b"{",
        b"[]",
        b'{"cluster":5}',
        b'{"cluster":""}',
        b'{"cluster":"a\\nb"}',
        b'{"cluster":"\xff"}',
        b'{"v":1}',
    ):
        assert cluster_of(record) == ""


def test_all_recordings_are_legal() -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("../shared/recordings is not there")
    recordings = sorted(RECORDINGS.glob("*.jsonl.gz"))
    assert recordings
    for recording in recordings:
        for record in open_recording(recording):
            read(record)
