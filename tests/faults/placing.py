"""Puts illegal records between the lines of a recording, wherever they are illegal, and says what
has to become of each.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.illegal_records import CODES, illegal_lines

#: How illegal records may lie in a log: `broken-clocks-first` puts the reports from the future
#: before everything else.
PLACEMENTS = ("scattered", "at-the-start", "one-block", "after-the-end", "broken-clocks-first")
#: What is illegal only after the line it was made of. When that one is long ago, its lateness is
#: what is told first.
_LATER = {"out-of-order": {"clock-behind"}}


@dataclass(frozen=True, slots=True)
class Bad:
    """An illegal record: its kind (see `CODES`), its bytes, and the codes its rejected row may
    carry where it was put.
    """

    kind: str
    line: bytes
    codes: frozenset[str]


Mixed = Sequence[bytes | Bad]


def mix(
    legal: Sequence[bytes], count: int, seed: int, placement: str, *, more: Iterable[Bad] = ()
) -> Mixed:
    """The legal lines in their order, with `count` illegal ones made by the seed, and `more`, put
    between them.
    """
    rng = random.Random(seed)
    block = rng.randrange(len(legal) // 4, len(legal))
    slots: defaultdict[int, list[Bad]] = defaultdict(list)
    for index, kind, line in illegal_lines(legal, count, seed):
        slot = _slot(rng, placement, kind, block, len(legal))
        slots[max(slot, index + 1) if kind in _LATER else slot].append(
            Bad(kind, line, CODES[kind] | _LATER.get(kind, set()))
        )
    for bad in more:
        slots[rng.randint(0, len(legal))].append(bad)
    mixed: list[bytes | Bad] = []
    for index in range(len(legal) + 1):
        mixed += (*slots[index], *legal[index : index + 1])
    return mixed


def lines(mixed: Mixed) -> list[bytes]:
    """The bytes of a log."""
    return [entry.line if isinstance(entry, Bad) else entry for entry in mixed]


def places(mixed: Mixed) -> Mapping[int, Bad]:
    """The illegal records by their byte in a topic of one segment."""
    found, offset = {}, 0
    for entry, line in zip(mixed, lines(mixed), strict=True):
        if isinstance(entry, Bad):
            found[offset] = entry
        offset += len(line) + 1
    return found


def _slot(rng: random.Random, placement: str, kind: str, block: int, end: int) -> int:
    """Before which legal line."""
    match placement:
        case "at-the-start":
            return 0
        case "one-block":
            return block
        case "after-the-end":
            return end
        case "broken-clocks-first" if kind == "from-the-future":
            return 0
        case _:
            return rng.randint(0, end)
