"""How deep and how crowded a JSON record is, found in its bytes: no value is built, so looking costs three times the record at most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from strategies.errors import WireError

#: Deeper than this no contract goes. The limit must not depend on how deep the caller's own stack is, as Python's does.
DEEPEST = 400
#: An array or object costs a reader some 100 to 300 bytes however short it is: up to FEW of them may be that short, of more each must have
#: MEAN_BYTES of the record. A load report has one in 130 bytes.
FEW = 20_000
MEAN_BYTES = 32

_NEITHER_QUOTES_NOR_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
#: Bytes looked at together: what numpy makes of them takes fifteen times as much.
_PIECE = 2**18


def check_shape(value: bytes) -> None:
    """Raises WireError for a record that nests too deep, or that holds too many arrays and objects for its size."""
    openings = value.count(b"{") + value.count(b"[")
    if openings <= DEEPEST:  # cheap for ordinary records
        return
    deepest, found = _depth_and_count(value)
    if deepest > DEEPEST:
        raise too_deep()
    most = max(FEW, len(value) // MEAN_BYTES)
    if found > most:
        text = (
            f"The record has {found} arrays and objects, more than the {most} allowed for its size; write it as docs/schemas describes it."
        )
        raise WireError("too-crowded", text)


def too_deep() -> WireError:
    """The record nests deeper than any contract does."""
    return WireError("too-deep", "The record nests hundreds of levels deep; write it as its contract in docs/schemas describes it.")


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
    """+1 for every bracket that opens and −1 for every one that closes, those in strings left out; piece by piece."""
    unescaped = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    signs = unescaped.translate(None, _NEITHER_QUOTES_NOR_BRACKETS)
    del unescaped
    within = False
    for start in range(0, len(signs), _PIECE):
        marks = np.frombuffer(signs, dtype=np.uint8, count=min(_PIECE, len(signs) - start), offset=start)
        quotes = marks == ord('"')
        strings = np.logical_xor.accumulate(quotes) ^ within
        yield np.take(_STEPS, marks[~strings & ~quotes])
        within = bool(strings[-1])
