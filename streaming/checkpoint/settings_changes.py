"""Which settings may change under a checkpoint, and when. No Spark here.

What a round may do is asked anew in every round and leaves nothing behind that other settings would read wrongly; what a strategy remembers
was made with its settings. A micro-batch that is repeated must be repeated under the settings of its first time: same ids, same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: Sections whose settings bound what is decided. Neither averages, hit counts nor clocks depend on them.
_FREE = ("limits.", "filters.", "throttling.")


def may_change(path: str) -> bool:
    """Whether a checkpoint goes on when the setting (dotted path) has another value."""
    return path.startswith(_FREE)


def committed_batch(folder: Path) -> int | None:
    """The last micro-batch of a checkpoint, -1 before the first; None when one was begun and not committed: it will be repeated.

    Read off Spark's own logs: a file in `offsets` when a micro-batch begins, one in `commits` when it is done.
    """
    begun, done = _newest(folder / "offsets"), _newest(folder / "commits")
    return done if begun <= done else None


def _newest(log: Path) -> int:
    return max(_numbers(entry.name for entry in log.iterdir()), default=-1) if log.is_dir() else -1


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(name) for name in names if name.isdecimal()]
