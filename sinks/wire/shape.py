"""How deep and how crowded a JSON record is, found in its bytes: no value is built, so looking costs a few times the record at most."""

from __future__ import annotations

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


def check_shape(value: bytes) -> None:
    """Raises WireError for a record that nests too deep, or that holds too many arrays and objects for its size."""
    openings = value.count(b"{") + value.count(b"[")
    if openings <= DEEPEST:  # cheap for ordinary records
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
    """The record nests deeper than any contract does."""
    return WireError("too-deep", "The record nests hundreds of levels deep; write it as its contract in docs/schemas describes it.")


def _brackets(value: bytes) -> NDArray[np.int8]:
    """+1 for every bracket that opens and −1 for every one that closes, those in strings left out."""
    unescaped = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(unescaped.translate(None, _NEITHER_QUOTES_NOR_BRACKETS), dtype=np.uint8)
    quotes = marks == ord('"')
    outside = ~np.logical_xor.accumulate(quotes) & ~quotes
    steps: NDArray[np.int8] = np.take(_STEPS, marks[outside])
    return steps
