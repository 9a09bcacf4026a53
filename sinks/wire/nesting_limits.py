"""Limits nesting and number of JSON arrays and objects, counted in the bytes: memory is at most
three times the record.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from strategies.errors import WireError

#: No contract nests deeper. A fixed limit, because Python's own depends on the depth of the
#: caller's stack.
DEEPEST = 400
#: An array or object costs a reader 100 to 300 bytes even if it is empty: up to FEW may be short;
#: beyond that, each needs MEAN_BYTES of the record on average. A load report has one per 130 bytes.
FEW = 20_000
MEAN_BYTES = 32

_NEITHER_QUOTES_NOR_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
#: Bytes looked at together: what numpy makes of them takes fifteen times as much.
_PIECE = 2**18


def check_shape(value: bytes) -> None:
    """Raises WireError for a record that nests too deep or has too many arrays and objects for its
    size.
    """
    openings = value.count(b"{") + value.count(b"[")
    if openings <= DEEPEST:  # most records end here
        return
    deepest, found = _depth_and_count(value)
    if deepest > DEEPEST:
        raise too_deep()
    most = max(FEW, len(value) // MEAN_BYTES)
    if found > most:
        raise WireError(
            "too-crowded",
            f"The record has {found} arrays and objects, more than the {most} allowed for its "
            "size; write it as docs/schemas describes it.",
        )


def check_utf8(value: bytes) -> None:
    """Raises UnicodeDecodeError for bytes that are not UTF-8. Decodes pieces: a wide character
    makes Python take 4 bytes for each other.
    """
    if value.isascii():
        return
    decoder = getincrementaldecoder("utf-8")()
    for start in range(0, len(value), _PIECE):
        decoder.decode(value[start : start + _PIECE])
    decoder.decode(b"", final=True)


def too_deep() -> WireError:
    """The error for a record that nests deeper than any contract."""
    return WireError(
        "too-deep",
        "The record nests hundreds of levels deep; write it as its contract in docs/schemas "
        "describes it.",
    )


def _depth_and_count(value: bytes) -> tuple[int, int]:
    """The deepest nesting, and the number of arrays and objects."""
    depth = deepest = found = 0
    for brackets in _brackets(value):
        depths = np.cumsum(brackets, dtype=np.int32)
        deepest = max(deepest, depth + int(depths.max(initial=0)))
        depth += int(depths[-1]) if depths.size else 0
        found += int(np.count_nonzero(brackets == 1))
    return deepest, found


def _brackets(value: bytes) -> Iterator[NDArray[np.int8]]:
    """+1 per opening bracket, −1 per closing bracket, those in strings excluded; piece by piece."""
    if b"\\" in value:  # a search for one byte costs a twentieth of one for two
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    signs = value.translate(None, _NEITHER_QUOTES_NOR_BRACKETS)
    del value
    within = False
    for start in range(0, len(signs), _PIECE):
        marks = np.frombuffer(
            signs, dtype=np.uint8, count=min(_PIECE, len(signs) - start), offset=start
        )
        quotes = marks == ord('"')
        strings = np.logical_xor.accumulate(quotes) ^ within
        yield np.take(_STEPS, marks[~strings & ~quotes])
        within = bool(strings[-1])
