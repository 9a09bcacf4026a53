"""A disk that forgets at a loss of power what was not flushed: the content of files, and the names
in folders.

It is a folder, and what was flushed in it by the `fsync` that product code takes as an argument.
Names are judged twice, because file systems differ: as they were flushed, and as they are, which is
how a renamed file may come back without its content.
"""

import os
import stat
from pathlib import Path

#: Path of each file → its content.
Image = dict[str, bytes]


class ForgetfulDisk:
    """What is in `root` at the beginning is on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._held: list[int] = []
        self._folders: set[int] = set()
        #: What power failures before each flush leave.
        self.failures: list[Image] = []
        for folder, _, files in os.walk(root):
            for path in (*(os.path.join(folder, name) for name in files), folder):
                self._flush(descriptor := os.open(path, os.O_RDONLY))
                os.close(descriptor)

    def fsync(self, descriptor: int) -> None:
        self.failures += self.after_a_failure()
        self._flush(descriptor)

    def after_a_failure(self) -> tuple[Image, Image]:
        """What is left of a loss of power now: with the flushed names, and with those of now."""
        return self._flushed(self.root.stat().st_ino), {
            path.relative_to(self.root).as_posix(): self._files.get(path.stat().st_ino, b"")
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def close(self) -> None:
        """Closes the files that were held, so that none took the number of another."""
        for descriptor in self._held:
            os.close(descriptor)

    def _flush(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISDIR(found.st_mode):
            self._files[found.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            return
        self._names[found.st_ino] = {}
        for name in os.listdir(descriptor):
            self._held.append(os.open(name, os.O_RDONLY, dir_fd=descriptor))
            entry = os.fstat(self._held[-1])
            self._names[found.st_ino][name] = entry.st_ino
            if stat.S_ISDIR(entry.st_mode):
                self._folders.add(entry.st_ino)

    def _flushed(self, folder: int, before: str = "") -> Image:
        image: Image = {}
        for name, number in self._names.get(folder, {}).items():
            if number in self._folders:
                image |= self._flushed(number, f"{before}{name}/")
            else:
                image[f"{before}{name}"] = self._files.get(number, b"")
        return image


def written(image: Image, folder: Path) -> Path:
    for name, content in image.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
