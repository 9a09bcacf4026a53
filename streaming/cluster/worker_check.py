"""What a worker of Spark says about itself. Imports nothing that a worker could lack."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

#: What our own packages import on a worker; `rebalancer ship` packs more, because these have needs of their own.
_NEEDED = ("numpy", "msgspec", "orjson", "pandas", "pyarrow", "google.protobuf")


class Seen(NamedTuple):
    """The worker's host, the packages it lacks, and those of the paths it was asked for that are not there."""

    host: str
    missing: tuple[str, ...]
    unseen: tuple[str, ...]


def look(paths: Sequence[str]) -> Seen:
    """Run by a worker."""
    return Seen(socket.gethostname(), tuple(_missing()), tuple(path for path in paths if not Path(path).exists()))


def _missing() -> Iterator[str]:
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            yield name
