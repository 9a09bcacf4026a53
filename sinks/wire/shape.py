"""Limits nesting and number of JSON arrays and objects, counted in the bytes: no value is built, so the memory used is bounded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strategies.errors import WireError

#: No contract nests deeper. A fixed limit, because Python's own depends on the depth of the caller's stack.
DEEPEST = 400
#: An array or object costs a reader 100 to 300 bytes even if it is empty: up to FEW may be short; beyond that, each needs MEAN_BYTES of
#: the record on average. A load report has one per 130 bytes.
FEW = 20_000
MEAN_BYTES = 32

_NEITHER_QUOTES_NOR_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def check_shape(value: bytes) -> None:
    """Raises WireError for a record that nests too deep or has too many arrays and objects for its size."""
    openings = value.count(b"{") + value.count(b"[")
    if openings <= DEEPEST:  # most records end here
        return
    brackets = _brackets(value)
    if int(np.cumsum(brackets, dtype=np.int32).max(initial=0)) > DEEPEST:
        raise too_deep()
    most = max(FEW, len(value) // MEAN_BYTES)
    if openings > most and (found := int(np.count_nonzero(brackets == 1))) > most:
        text = (
            f"The record has {found} arrays and objects, more than the {most} allowed for its size; write it as docs/schemas describes it."
        )
        raise WireError("too-crowded", text)


def too_deep() -> WireError:
    """The error for a record that nests deeper than any contract."""
    return WireError("too-deep", "The record nests hundreds of levels deep; write it as its contract in docs/schemas describes it.")


def _brackets(value: bytes) -> NDArray[np.int8]:
    """+1 per opening bracket, −1 per closing bracket, those in strings excluded."""
    unescaped = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(unescaped.translate(None, _NEITHER_QUOTES_NOR_BRACKETS), dtype=np.uint8)
    quotes = marks == ord('"')
    outside = ~np.logical_xor.accumulate(quotes) & ~quotes
    steps: NDArray[np.int8] = np.take(_STEPS, marks[outside])
    return steps
