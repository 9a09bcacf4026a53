"""Brokers' own reports: telemetry without our envelope, whose cluster and broker are in the
record's headers or key; and the versions that reports, and the policies of a collector, hold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from sinks.wire.names_and_times import check_shape, is_broker
from strategies.errors import SettingsError, WireError
from strategies.settings import Setting

Format = Literal["envelope", "raw"]
RawKind = Literal["load-report", "broker-load-data", "top-bundles-load-data"]
#: Withdrawing a report of this kind makes the job forget the broker.
_FIGURES: RawKind = "broker-load-data"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Format of the records on the telemetry topic."""

    format: Annotated[
        Format,
        Setting(
            "envelope: our own records only; raw: also brokers' reports without envelope, see "
            "docs/TOPICS.md (only on Kafka)"
        ),
    ] = "envelope"
    kind: Annotated[RawKind, Setting("raw: kind of the reports without a header `kind`")] = (
        "load-report"
    )
    cluster: Annotated[
        str, Setting("raw: cluster of the reports that name none in header or key")
    ] = ""


def check_source(telemetry: str, source: SourceSettings) -> None:
    """Raises SettingsError for raw records on a topic whose records have neither keys nor
    headers.
    """
    if source.format == "raw" and not telemetry.startswith("kafka:"):
        raise SettingsError(
            [
                "source.format: raw needs a telemetry topic on Kafka, whose records have keys and "
                "headers; publish our own envelope elsewhere"
            ]
        )


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Key, headers and timestamp of a record. `ts`: ms since 1970, by the topic's clock."""

    key: bytes | None
    headers: Mapping[str, bytes]
    ts: int


class _Enveloped(msgspec.Struct):
    kind: str


def enveloped(value: bytes | None, metadata: RecordMetadata, source: SourceSettings) -> bytes:
    """The record in our envelope. A record with a `kind`, or one that is not JSON, stays as it is;
    an unknown name is empty.

    Never fails: the decoder that runs next reports what is wrong, in the same words for both
    formats.
    `value`: None or empty is a tombstone, which withdraws the broker's last report of this kind;
    for a load report, all its figures.
    """
    withdrawn = value is None or not value.strip()
    if value is not None and _is_enveloped(value):
        return value
    cluster, broker = _names(metadata, source)
    kind = _text(metadata.headers.get("kind")) or source.kind
    if withdrawn and kind == "load-report":
        kind = _FIGURES
    try:
        # A report must not close the envelope and add fields of its own: only one complete JSON
        # value passes.
        report = b"null" if value is None or withdrawn else msgspec.json.format(value, indent=-1)
    except (ValueError, RecursionError):
        return value or b""
    return encode_broker_record(cluster, broker, _ts(metadata), report, kind=kind)


def encode_broker_record(cluster: str, broker: str, ts: int, report: bytes, **kinds: str) -> bytes:
    """What a broker reports as the product writes it. `ts`: ms since 1970; `report`: the broker's
    JSON, copied without being parsed; `kinds`: the kind of the record, and of a note its name.
    """
    names = {"cluster": cluster, "broker": broker, "ts": ts}
    return msgspec.json.encode({"v": 1, **kinds, **names, "report": msgspec.Raw(report)})


def _is_enveloped(value: bytes) -> bool:
    try:
        msgspec.json.decode(value, type=_Enveloped)
    except (ValueError, RecursionError):
        return False
    return True


def _names(metadata: RecordMetadata, source: SourceSettings) -> tuple[str, str]:
    """Cluster and broker. From headers, else the key, else the settings. A key is
    `cluster/host:port`, `host:port` or a cluster.
    """
    key = _text(metadata.key)
    before, slash, after = key.rpartition("/")
    if slash and is_broker(after):
        cluster, broker = before, after
    else:
        cluster, broker = ("", key) if is_broker(key) else (key, "")
    return _text(metadata.headers.get("cluster")) or cluster or source.cluster, _text(
        metadata.headers.get("broker")
    ) or broker


def _ts(metadata: RecordMetadata) -> int:
    """The header `ts`, otherwise the topic's timestamp."""
    header = _text(metadata.headers.get("ts"))
    return (
        int(header) if header.isascii() and header.isdigit() and len(header) < 16 else metadata.ts
    )


def _text(value: Any) -> str:
    return "" if value is None else bytes(value).decode("utf-8", errors="replace")


class _Versioned(msgspec.Struct):
    """Of a report, only what names versions."""

    brokerVersionString: Any = None
    brokers: Any = None


class _VersionRecord(msgspec.Struct):
    kind: str = ""
    cluster: str = ""
    broker: str | None = None
    brokers: Any = None
    report: msgspec.Raw = msgspec.Raw(b"null")


def brokers_in(value: bytes, *, collected: bool = True) -> dict[str, str] | None:
    """Broker → version, as one telemetry record says; empty for a record that says nothing, None if
    it cannot be read or does not show that brokers have reported. Brokers have their cluster before
    them: `cluster/host:port`.

    `collected`: a collector publishes the records. Load data of the extensible load manager has no
    version, and comes before the policies that name them; the sweep comes after these.
    """
    try:
        check_shape(value)
        record = msgspec.json.decode(value, type=_VersionRecord)
        if record.kind not in ("load-report", "policies"):
            shows = bool(record.brokers) if record.kind == "sweep" else not collected
            return {} if shows else None
        versions = dict(_named(record, msgspec.json.decode(record.report, type=_Versioned)))
        return versions if versions or record.kind == "load-report" else None
    except (WireError, ValueError, RecursionError):
        return None


def _named(record: _VersionRecord, report: _Versioned) -> Iterator[tuple[str, str]]:
    if record.kind == "load-report":
        if record.broker and isinstance(report.brokerVersionString, str):
            yield f"{record.cluster}/{record.broker}", report.brokerVersionString
    elif isinstance(report.brokers, dict):
        for broker, facts in report.brokers.items():
            version = facts.get("version") if isinstance(facts, dict) else None
            if isinstance(version, str):
                yield f"{record.cluster}/{broker}", version
