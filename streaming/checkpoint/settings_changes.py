"""Which settings may change under a checkpoint, and when. Imports no Spark.

Limits of a round are evaluated in each round and leave no state that other values would misread;
the memory of a strategy depends on its settings. A repeated micro-batch must run with the settings
of its first attempt: same ids, same bytes.
"""

from __future__ import annotations

from pathlib import Path

from streaming.checkpoint.guard_file import RUNTIME

#: Sections with limits of a round, capacities, when a cluster is forgotten, and the versions of
#: Python and numpy. Hit counts and clocks do not depend on them; averages of usage follow other
#: capacities, or begin again.
_FREE = (
    "capacities.",
    "limits.",
    "filters.",
    "throttling.",
    "drains.",
    "rivals.",
    "bulkhead.",
    "round.forget_cluster_after_days",
    RUNTIME,
)


def may_change(path: str) -> bool:
    """Whether a checkpoint continues when the setting (dotted path) has another value."""
    return path.startswith(_FREE)


def committed_batch(folder: Path) -> int | None:
    """The last micro-batch of a checkpoint, -1 before the first; None if one was begun and not
    committed: it will be repeated.

    Read from Spark's logs: a file in `offsets` when a micro-batch begins, one in `commits` when it
    ends.
    """
    begun, done = _newest(folder / "offsets"), _newest(folder / "commits")
    return done if begun <= done else None


def _newest(log: Path) -> int:
    names = [entry.name for entry in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
