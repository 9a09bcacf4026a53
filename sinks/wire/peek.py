"""Reads cluster and time of a telemetry record without decoding it, so that a record beyond its
cluster's quota costs little.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

import msgspec

from sinks.wire.checks import is_cluster, other_unit
from sinks.wire.codec import cluster_of
from sinks.wire.plain_numbers import with_plain_numbers
from strategies.cluster.model import LARGEST_TIME

#: As much as `peek` reads of a record in the usual order.
PEEKED_BYTES = 2 * 2**10
#: Above this size, a source may pass on the beginning of a record only.
LARGE_BYTES = 2**18
#: The order that brokers' collectors write, with or without blanks.
_USUAL = re.compile(
    rb'\{"v": ?1, ?"kind": ?"([a-z-]{1,32})", ?"cluster": ?"([^"\\\x80-\xff]{1,512})", ?'
    rb'(?:"broker": ?"[^"\\]{1,512}", ?)?"ts": ?([0-9]{1,16})[,}]'
)


class Peeked(NamedTuple):
    """`cluster`: empty if it cannot be read. `ts`: ms since the epoch. `has_quota`: the cluster's
    quota applies: not to an intent, which a person sends, nor where either is unusable.
    """

    cluster: str
    ts: int = 0
    has_quota: bool = False


class _Skimmed(msgspec.Struct):
    kind: str
    cluster: str
    ts: int


_SKIM = msgspec.json.Decoder(_Skimmed)


def peek(value: bytes) -> Peeked:
    """Cluster and time of a record. One in another order is read to its end for them, which is a
    small part of decoding it.
    """
    usual = _USUAL.match(value)
    if usual is None:
        found = _skimmed(value)
    else:
        kind, cluster, ts = usual.groups()
        found = _Skimmed(kind.decode(), cluster.decode(), int(ts))
    if found is None or not is_cluster(found.cluster):
        return Peeked(cluster_of(value))
    usable = 0 <= found.ts <= LARGEST_TIME and not other_unit(found.ts)
    return Peeked(found.cluster, found.ts, usable and found.kind != "intent")


def _skimmed(value: bytes) -> _Skimmed | None:
    with suppress(ValueError, RecursionError):
        return _SKIM.decode(value)
    with suppress(ValueError, RecursionError):  # decoding mends numbers that are no JSON
        return _SKIM.decode(with_plain_numbers(value))
    return None
