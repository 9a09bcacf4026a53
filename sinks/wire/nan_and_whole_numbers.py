"""Writes the numbers of a record as the decoder takes them: whole numbers without a point, NaN and
infinities, which are not JSON, as numbers beyond every bound.

Works on the bytes: no value is built.
"""

import re

from sinks.wire.contracts.execution import LARGEST_INTEGER, OutcomeRecord
from sinks.wire.contracts.telemetry import (
    KINDS,
    BrokerLoadData,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    TopBundle,
    TopBundlesLoadData,
)

_BRACE, _KEY, _NUMBER, _NO_NUMBER = 1, 3, 4, 5
_TOKEN = re.compile(
    rb"([{}])"
    rb'|("(?:[^"\\]++|\\.)*+"?)(?:[ \t\r\n]*+(:))?'  # a string; a torn one up to its end
    rb"|-?[0-9]++((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)"
    rb"|(NaN|-?Infinity)",
    re.DOTALL,
)
NOT_A_NUMBER = b"9e9999"
_BEYOND = {b"NaN": NOT_A_NUMBER, b"Infinity": b"1e999", b"-Infinity": b"-1e999"}
#: The keys that a reader looks for.
_NAMED = frozenset(
    f'"{name}"'.encode()
    for contract in (
        *KINDS.values(),
        OutcomeRecord,
        LocalBrokerData,
        BrokerLoadData,
        TopBundlesLoadData,
        TopBundle,
        ResourceUsage,
        NamespaceBundleStats,
    )
    for name in ("kind", *contract.__struct_fields__)
)


def with_plain_numbers(value: bytes) -> bytearray:
    """The record with other spellings of its numbers. Raises ValueError where an object has a key
    twice that some contract names: what it means is open.
    """
    plain, end = bytearray(), 0
    keys: list[set[bytes]] = []
    for token in _TOKEN.finditer(value):
        group = token.lastindex
        if group == _KEY:
            _note_key(token[2], keys)
        elif group == _BRACE:
            _step(token[1], keys)
        elif group in (_NUMBER, _NO_NUMBER):
            written = _BEYOND[token[0]] if group == _NO_NUMBER else _whole(token[0], token[_NUMBER])
            if written:
                plain += value[end : token.start()]
                plain += written
                end = token.end()
    plain += value[end:]
    return plain


def _note_key(key: bytes, keys: list[set[bytes]]) -> None:
    if key in _NAMED and keys:
        if key in keys[-1]:
            raise ValueError("a key occurs twice")
        keys[-1].add(key)


def _step(brace: bytes, keys: list[set[bytes]]) -> None:
    """Into an object, or out of it; `keys`: named ones so far, of each object around."""
    if brace == b"{":
        keys.append(set())
    elif keys:
        keys.pop()


def _whole(number: bytes, fraction: bytes) -> bytes:
    """The number as an integer; empty if it is none, or is one already."""
    if not fraction:
        return b""
    figure = float(number)
    is_whole = figure.is_integer() and abs(figure) <= LARGEST_INTEGER
    return b"%d" % figure if is_whole else b""
