"""Telemetry records without our envelope: a broker's own report, its cluster and broker in the record's headers or key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from sinks.wire.names import is_broker
from strategies.errors import SettingsError
from strategies.settings import Setting

Format = Literal["envelope", "raw"]
RawKind = Literal["load-report", "broker-load-data", "top-bundles-load-data"]
#: The kind whose withdrawal makes the job forget a broker.
_FIGURES: RawKind = "broker-load-data"
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What stands in the records of the telemetry topic."""

    format: Annotated[
        Format, Setting("envelope: our own records only; raw: also a broker's report as it is, see docs/TOPICS.md (Kafka topics only)")
    ] = "envelope"
    kind: Annotated[RawKind, Setting("raw: what a report is that has no header `kind`")] = "load-report"
    cluster: Annotated[str, Setting("raw: the cluster of reports that name none in header or key")] = ""


def check_source(telemetry: str, source: SourceSettings) -> None:
    """Raises SettingsError where raw records could not be told apart."""
    if source.format == "raw" and not telemetry.startswith("kafka:"):
        text = "raw needs a telemetry topic on Kafka, whose records have keys and headers; publish our own envelope elsewhere"
        raise SettingsError([f"source.format: {text}"])


@dataclass(frozen=True, slots=True)
class Around:
    """What a record carries beside its value. `ts`: ms since 1970, by the clock of the topic."""

    key: bytes | None
    headers: Mapping[str, bytes]
    ts: int


class _Enveloped(msgspec.Struct):
    kind: str


class _Envelope(msgspec.Struct):
    v: int
    kind: str
    cluster: str
    broker: str
    ts: int
    report: msgspec.Raw


_ENVELOPED = msgspec.json.Decoder(_Enveloped)


def enveloped(value: bytes | None, around: Around, source: SourceSettings) -> bytes:
    """The record in our envelope. What has a `kind`, or is no JSON, stays as it is; a name that nobody gives is an empty one.

    Never fails: the decoder that comes next tells what is wrong with a record, in the same words however it was read.
    `value`: None or an empty one is a tombstone, which withdraws what the broker said before; of a load report, its figures with it.
    """
    withdrawn = value is None or not value.strip()
    if value is not None and _is_enveloped(value):
        return value
    cluster, broker = _names(around, source)
    kind = _text(around.headers.get("kind")) or source.kind
    if withdrawn and kind == "load-report":
        kind = _FIGURES
    try:
        # The report may not close the envelope and add names of its own: only one whole JSON value passes.
        report = b"null" if value is None or withdrawn else msgspec.json.format(value, indent=-1)
    except (ValueError, RecursionError):
        return value or b""
    return _ENCODER.encode(_Envelope(1, kind, cluster, broker, _ts(around), msgspec.Raw(report)))


def _is_enveloped(value: bytes) -> bool:
    try:
        _ENVELOPED.decode(value)
    except (ValueError, RecursionError):
        return False
    return True


def _names(around: Around, source: SourceSettings) -> tuple[str, str]:
    """Headers count before the key, the key before the settings. A key is `cluster/host:port`, `host:port`, or a cluster."""
    key = _text(around.key)
    before, slash, after = key.rpartition("/")
    if slash and is_broker(after):
        cluster, broker = before, after
    else:
        cluster, broker = ("", key) if is_broker(key) else (key, "")
    return _text(around.headers.get("cluster")) or cluster or source.cluster, _text(around.headers.get("broker")) or broker


def _ts(around: Around) -> int:
    """The header `ts`, else the topic's clock."""
    told = _text(around.headers.get("ts"))
    return int(told) if told.isascii() and told.isdigit() and len(told) < 16 else around.ts


def _text(value: Any) -> str:
    return "" if value is None else bytes(value).decode("utf-8", errors="replace")
