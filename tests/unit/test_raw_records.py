"""Brokers' reports without our envelope: headers or key say who said it."""

import json

import pytest

from sinks.wire.raw_broker_reports import (
    RawKind,
    RecordMetadata,
    SourceSettings,
    enveloped,
)
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, OutcomeReport, TelemetryRecord, Tombstone
from strategies.errors import WireError
from tests.telemetry_lines import T0, broker_load, load_report, outcome, top_bundles

RAW = SourceSettings("raw")


def bare(line: bytes) -> bytes:
    """The report alone, as the broker itself prints it."""
    return json.dumps(json.loads(line)["report"], indent=1).encode()


def read(
    value: bytes | None, key: str | None = None, source: SourceSettings = RAW, **headers: str
) -> TelemetryRecord:
    told = {name: text.encode() for name, text in headers.items()}
    metadata = RecordMetadata(None if key is None else key.encode(), told, 5)
    return decode(enveloped(value, metadata, source), b"")


REPORT = bare(load_report("b:1"))


@pytest.mark.parametrize(
    ("key", "configured", "headers"),
    [
        (None, "", {"cluster": "c", "broker": "b:1"}),
        ("c", "", {"broker": "b:1"}),
        ("c/b:1", "", {}),
        ("b:1", "", {"cluster": "c"}),
        ("b:1", "c", {}),
        ("other/x:9", "another", {"cluster": "c", "broker": "b:1"}),
    ],
)
def test_cluster_and_broker_stand_in_headers_key_or_settings(
    key: str | None, configured: str, headers: dict[str, str]
) -> None:
    record = read(REPORT, key, SourceSettings("raw", cluster=configured), **headers)
    wanted = decode(load_report("b:1"), b"")
    assert isinstance(record, LoadReport)
    assert isinstance(wanted, LoadReport)
    assert (record.cluster, record.broker, record.ts) == ("c", "b:1", 5)
    assert (record.figures, record.digest) == (wanted.figures, wanted.digest)


def test_the_time_is_that_of_the_header_or_else_of_the_topic() -> None:
    assert [read(REPORT, "c/b:1", ts=ts).ts for ts in ("7", "", "soon", "9" * 40)] == [7, 5, 5, 5]


def test_figures_and_busy_bundles_of_the_extensible_manager_are_read_by_their_kind() -> None:
    figures = read(bare(broker_load("b:1")), "c/b:1", kind="broker-load-data")
    bundles = read(
        bare(top_bundles("b:1")), "c/b:1", SourceSettings("raw", kind="top-bundles-load-data")
    )
    assert isinstance(figures, LoadReport)
    assert figures.figures is not None
    assert isinstance(bundles, LoadReport)
    assert bundles.bundles is not None
    assert len(bundles.bundles.names) == 2


@pytest.mark.parametrize("value", [None, b"", b" \n"], ids=["null", "empty", "blank"])
@pytest.mark.parametrize("kind", ["load-report", "broker-load-data"])
def test_a_tombstone_withdraws_what_the_broker_said_of_itself(
    value: bytes | None, kind: RawKind
) -> None:
    withdrawn = read(value, "c/b:1", SourceSettings("raw", kind=kind))
    assert isinstance(withdrawn, Tombstone)
    assert (withdrawn.cluster, withdrawn.broker, withdrawn.ts) == ("c", "b:1", 5)


def test_a_tombstone_of_busy_bundles_is_an_empty_list() -> None:
    withdrawn = read(None, "c/b:1", kind="top-bundles-load-data")
    assert isinstance(withdrawn, LoadReport)
    assert (withdrawn.figures, withdrawn.bundles and withdrawn.bundles.names) == (None, ())


def test_what_has_our_envelope_stays_as_it_is() -> None:
    """Outcomes come back on the same topic, with the cluster as their key."""
    assert isinstance(read(outcome(), "c"), OutcomeReport)
    said = read(load_report("a:1"), "c/b:1")
    assert isinstance(said, LoadReport)
    assert (said.broker, said.ts) == ("a:1", T0)


@pytest.mark.parametrize(
    ("value", "key", "code"),
    [
        (REPORT, None, "cluster-empty"),
        (REPORT, "c", "broker-empty"),
        (REPORT, "\x07/b:1", "cluster-name"),
        (b"nonsense", "c/b:1", "not-json"),
        (b"{}", "c/b:1", "missing-field"),
        (b"[" * 5_000, "c/b:1", "too-deep"),
        (None, None, "cluster-empty"),
        (None, "c", "broker-empty"),
        (REPORT + b',"cluster":"other"', "c/b:1", "not-json"),
        (b"\xff\xfe", "c/b:1", "not-utf8"),
    ],
)
def test_what_cannot_be_used_is_a_wire_error_like_any_other(
    value: bytes | None, key: str | None, code: str
) -> None:
    with pytest.raises(WireError) as refused:
        read(value, key)
    assert refused.value.code == code


def test_a_kind_that_nobody_knows_is_told() -> None:
    with pytest.raises(WireError, match="gossip"):
        read(REPORT, "c/b:1", kind="gossip")
