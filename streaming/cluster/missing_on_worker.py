"""The report of a Spark worker about its packages and paths. Imports nothing that a worker may
lack.
"""

import hashlib
import importlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: Direct imports of our packages on a worker; `rebalancer ship` also packs their dependencies.
_NEEDED = ("numpy", "msgspec", "orjson", "pandas", "pyarrow", "google.protobuf")


class WorkerReport(NamedTuple):
    """The worker's host, its missing packages, and the paths that it cannot read, or that are
    others there.
    """

    host: str
    missing: tuple[str, ...]
    unseen: tuple[str, ...]


def content_of(path: str) -> str:
    """Returns the SHA-256 of a file, empty if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def report_missing(paths: Mapping[str, str]) -> WorkerReport:
    """Runs on a worker and reports what is missing. `paths`: path → SHA-256 of its content, empty
    if only its presence counts.
    """
    return WorkerReport(
        socket.gethostname(),
        tuple(_missing()),
        tuple(path for path, content in paths.items() if not _sees(path, content)),
    )


def _sees(path: str, content: str) -> bool:
    return content_of(path) == content if content else os.access(path, os.R_OK)


def _missing() -> Iterator[str]:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            yield name
