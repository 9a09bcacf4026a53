"""Files that survive a loss of power, and errors of a full disk: which folder it is, and what to
do. The system names no file when a write to an open file fails.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Fsync = Callable[[int], None]
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
    """True if an error is about a disk without free space or a used-up quota: by its number or, of
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


def sync_folder(folder: Path, fsync: Fsync = os.fsync) -> None:
    """Returns when the names in a folder are on the disk. Otherwise a power failure may lose a file
    that was flushed itself.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(file: Path, text: str, draft: str, fsync: Fsync = os.fsync) -> None:
    """Replaces the content of a file, through a file of the name `draft` beside it: after a kill or
    a loss of power, the old or the new text is there as a whole, and the new one if this has
    returned. Raises OSError.
    """
    new = file.with_name(draft)
    with naming(file), new.open("w", encoding="utf-8") as written:
        written.write(text)
        written.flush()
        fsync(written.fileno())
    new.replace(file)
    sync_folder(file.parent, fsync)


def make_folder(folder: Path, fsync: Fsync = os.fsync) -> None:
    """Creates a folder and its parents; their names are on the disk when it returns. Raises
    OSError.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent, fsync)
