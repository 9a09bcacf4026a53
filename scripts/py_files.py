"""Writes the py-files zip for spark-submit: the given packages, byte for byte the same for the same sources."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

EARLIEST = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    target, *packages = sys.argv[1:]
    write_zip(Path(target), [Path(package) for package in packages])
    print(target)


def write_zip(target: Path, packages: list[Path]) -> None:
    """Writes `packages` (folders below the current one) to `target`, in order of name and without time stamps."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files_of(packages):
            entry = zipfile.ZipInfo(file.as_posix(), EARLIEST)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def files_of(packages: list[Path]) -> Iterator[Path]:
    for package in sorted(packages):
        yield from sorted(file for file in package.rglob("*") if file.is_file() and file.suffix != ".pyc")


if __name__ == "__main__":
    main()
