"""Errors of a full disk: which folder it is, and what to do. The system names no file when a write
to an open file fails.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
#: Texts of these errors, as Java and pyarrow quote them.
_TEXTS = tuple(os.strerror(number) for number in _FULL)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the block are about this file or folder, unless they name another one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def is_full(error: BaseException | str) -> bool:
    """Whether an error is about a disk without free space or a used-up quota: by its number or, of
    another program's, its text.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return any(text in str(error) for text in _TEXTS)


def make_room(folders: Sequence[Path]) -> str:
    """The next step, with the free space of the disks of these files or folders."""
    found = []
    for folder in folders:
        with suppress(OSError):
            there = next(above for above in (folder, *folder.parents) if above.exists())
            found.append(f"{folder} has {shutil.disk_usage(there).free / 2**20:.0f} MiB free")
    return f"{', '.join(found)}; free space there, or name a folder on another disk"
