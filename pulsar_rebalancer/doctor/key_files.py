"""What the checks of all signing keys share: who else may read their files, and a key that is being
replaced.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

_OTHERS = stat.S_IWGRP | stat.S_IRWXO


def open_to_others(files: Iterable[str]) -> tuple[str, int] | None:
    """The first of these files that others may read or change, and its mode; empty names are left
    out.
    """
    for file in filter(None, files):
        mode = stat.S_IMODE(Path(file).stat().st_mode)
        if mode & _OTHERS:
            return file, mode
    return None


def and_previous(previous: str, setting: str) -> str:
    """The end of a sentence about a usable key; empty without a previous one."""
    return f"; the previous one is accepted too: remove {setting} after the change" * bool(previous)
