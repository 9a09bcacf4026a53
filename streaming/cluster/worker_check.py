"""The report of a Spark worker about its packages and paths. Imports nothing that a worker may
lack.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

#: Direct imports of our packages on a worker; `rebalancer ship` also packs their dependencies.
_NEEDED = ("numpy", "msgspec", "orjson", "pandas", "pyarrow", "google.protobuf")


class WorkerReport(NamedTuple):
    """The worker's host, its missing packages, and the paths that do not exist there."""

    host: str
    missing: tuple[str, ...]
    unseen: tuple[str, ...]


def report_missing(paths: Sequence[str]) -> WorkerReport:
    """Runs on a worker and reports what is missing."""
    return WorkerReport(
        socket.gethostname(),
        tuple(_missing()),
        tuple(path for path in paths if not Path(path).exists()),
    )


def _missing() -> Iterator[str]:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            yield name
