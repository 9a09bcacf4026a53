"""Moves a checkpoint of another state format out of the way of a new one. Imports no Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

from sinks.topics.files.segments import sync_folder


def moved_aside(folder: Path, formats: Mapping[str, int], last: str, keep: Collection[str]) -> Path:
    """Moves the content of `folder` to a folder beside it, which is returned. Raises OSError.

    `formats`: versions of the state, for the name; `last`: the file that makes it a checkpoint is
    moved last, so that a start after a kill moves the rest; `keep`: files that stay.
    """
    aside = _free(folder, formats, last)
    aside.mkdir(exist_ok=True)
    names = sorted(one.name for one in folder.iterdir() if one.name not in (last, *keep))
    for name in (*names, last):
        (folder / name).rename(aside / name)
    sync_folder(aside)
    sync_folder(folder)
    return aside


def _free(folder: Path, formats: Mapping[str, int], last: str) -> Path:
    versions = "-".join(f"{part}-{version}" for part, version in sorted(formats.items()))
    names = (f"{folder.name}.{versions}{f'-{number}' if number else ''}" for number in count())
    return next(path for name in names if not ((path := folder.with_name(name)) / last).exists())
