"""Oddities of legal telemetry; what each kind means is in tests/golden/answers/decoded.txt."""

import json

import pytest

from sinks.wire.record_decoding import (
    Peeked,
    Position,
    WireLimits,
    clip,
    cluster_of,
    decode,
    pack_origin,
    peek,
)
from strategies.cluster import model
from strategies.cluster.intent_records_and_states import Intent
from strategies.errors import WireError
from tests.changed_records import changed, without
from tests.telemetry_lines import T0, bundle, line, load_report, one_of_each


def read(record: bytes) -> model.TelemetryRecord:
    return decode(record, b"")


def report_of(record: bytes) -> model.LoadReport:
    report = read(record)
    assert isinstance(report, model.LoadReport)
    return report


@pytest.mark.parametrize("record", one_of_each())
def test_fields_nobody_knows_are_ignored(record: bytes) -> None:
    assert str(read(changed(record, "surprise", to={"deep": [1, {"x": None}]}))) == str(
        read(record)
    )


@pytest.mark.parametrize("record", one_of_each())
def test_every_kind_carries_its_origin_along(record: bytes) -> None:
    origin = pack_origin(Position("telemetry", 2, 77), record)
    assert decode(record, origin).origin == origin


def test_unicode_may_come_escaped_or_plain() -> None:
    plain = load_report(cluster="köln ⛵")
    escaped = json.dumps(json.loads(plain)).encode()
    assert plain != escaped
    assert read(plain).cluster == read(escaped).cluster == "köln ⛵"


def test_figures_that_are_spelled_otherwise_mean_the_same() -> None:
    """Java writes exponents and integers where it likes, and a line may end as on Windows."""
    plain = load_report()
    java = plain.replace(b'"limit":10000000.0', b'"limit":1.0E7')
    java = java.replace(b'50.0,"limit"', b'50,"limit"')
    pairs = [(plain, java), (plain, plain + b"\r")]
    places = [("msgRateIn",), ("msgRateOut",), ("msgThroughputIn",), ("msgThroughputOut",)]
    for place in [*places, ("cpu", "usage"), ("cpu", "limit")]:
        zero = changed(plain, "report", *place, to=0.0)
        pairs.append((zero, changed(plain, "report", *place, to=-0.0)))
    for one, other in pairs:
        assert one != other
        assert report_of(one).digest == report_of(other).digest


def test_of_a_key_that_is_there_twice_the_last_one_counts() -> None:
    """As in Jackson and nearly every other reader; a broker cannot write such a record."""
    twice = load_report().replace(b'"ts":', b'"ts":5,"ts":', 1)
    assert read(twice).ts == T0


def test_the_digest_changes_with_the_order_and_the_names_of_bundles() -> None:
    base, digest = load_report(), report_of(load_report()).digest
    assert len(digest) == 16
    for other in (
        load_report(loads={bundle(1): 50.0, bundle(0): 100.0}),
        base.replace(bundle(1).encode(), bundle(7).encode()),
    ):
        assert report_of(other).digest != digest


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
    assert len(clip(at_most, WireLimits())) == 8 * 2**20
    assert len(clip(at_most + b" ", WireLimits())) == 65_536


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


def test_all_kinds_but_intents_are_found_as_decoding_finds_them() -> None:
    for value in [*one_of_each(), load_report(seconds=7)]:
        record = decode(value, b"")
        has_quota = not isinstance(record, Intent)
        assert peek(value) == (record.cluster, record.ts, has_quota)


@pytest.mark.parametrize("size", [1, 2_000, 2**18])
def test_a_record_is_read_to_its_end_for_what_its_beginning_does_not_say(size: int) -> None:
    late = {"report": {"x": "x" * size}, "kind": "note", "cluster": "c", "ts": T0}
    assert peek(json.dumps(late).encode()) == Peeked("c", T0, True)
    assert peek(json.dumps(late).encode()[:-1]) == Peeked("")
    assert peek(json.dumps({**late, "kind": "intent"}).encode()) == Peeked("c", T0)


def test_the_beginning_is_enough() -> None:
    assert peek(line("note", 0)[:80] + b"\xff" * 2**20) == Peeked("c", T0, True)
