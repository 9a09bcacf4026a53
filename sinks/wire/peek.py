"""Reads cluster and time of a telemetry record without decoding it, so that a record beyond its
cluster's quota costs little.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from sinks.wire.names import is_cluster
from sinks.wire.times import other_unit
from strategies.cluster.model import LARGEST_TIME

#: Most records name both within their first bytes, before the report.
_HEAD_BYTES = 1024
#: As much as `peek` reads of a record that does.
PEEKED_BYTES = 2 * _HEAD_BYTES
#: Above this size, a source may pass on the beginning of a record only.
LARGE_BYTES = 2**18
#: The order that brokers' collectors write.
_USUAL = re.compile(
    rb'\{"v":1,"kind":"([a-z-]{1,32})","cluster":"([^"\\]{1,512})",'
    rb'(?:"broker":"[^"\\]{1,512}",)?"ts":([0-9]{1,16})[,}]'
)
_START = re.compile(rb"\s*\{")
#: One field with a plain value, and what follows it.
_FIELD = re.compile(
    rb'\s*"([^"\\]{0,64})"\s*:\s*(?:"([^"\\]{0,512})"|(-?[0-9]{1,20})|true|false|null)\s*[,}]'
)


class Peeked(NamedTuple):
    """`ts`: ms since the epoch."""

    cluster: str
    ts: int


class _Skimmed(msgspec.Struct):
    kind: str
    cluster: str
    ts: int


_SKIM = msgspec.json.Decoder(_Skimmed)


def peek(value: bytes) -> Peeked | None:
    """Cluster and time of a record; None where they are not found, and for an intent, which a
    person sends: no quota applies to it. A record that does not begin with them is read to its end
    for them, which is a small part of decoding it.
    """
    usual = _USUAL.match(value)
    found = _first_fields(value[:_HEAD_BYTES]) if usual is None else _read(*usual.groups())
    if found is None:
        found = _skimmed(value)
    if found is None or found.kind == "intent":
        return None
    if not is_cluster(found.cluster) or not 0 <= found.ts <= LARGEST_TIME or other_unit(found.ts):
        return None
    return Peeked(found.cluster, found.ts)


def _first_fields(head: bytes) -> _Skimmed | None:
    start = _START.match(head)
    at = None if start is None else start.end()
    kind = cluster = ts = None
    while at is not None and (field := _FIELD.match(head, at)) is not None:
        name, text, number = field.groups()
        if name == b"cluster":
            cluster = text
        elif name == b"ts":
            ts = number
        elif name == b"kind":
            kind = text
        if kind is not None and cluster is not None and ts is not None:
            return _read(kind, cluster, ts)
        at = field.end()
    return None


def _read(kind: bytes, cluster: bytes, ts: bytes) -> _Skimmed | None:
    try:
        return _Skimmed(kind.decode(), cluster.decode(), int(ts))
    except UnicodeDecodeError:
        return None


def _skimmed(value: bytes) -> _Skimmed | None:
    try:
        return _SKIM.decode(value)
    except (ValueError, RecursionError):  # decoding says what is wrong with it
        return None
