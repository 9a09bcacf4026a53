"""Moves a checkpoint of another state format out of the way of a new one. Imports no Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

from sinks.disk import sync_folder, write_durably

_DRAFT = "moved.draft"


def moved_aside(
    folder: Path, formats: Mapping[str, int], guard: str, keep: Collection[str]
) -> Path:
    """Moves the content of `folder` to a folder beside it, which is returned. Raises OSError.

    `formats`: versions of the state, for the name; `guard`: the file that makes it a checkpoint is
    copied, for it stays until a new one replaces it: a start after a kill finds the old checkpoint
    and its epoch, and moves the rest; `keep`: files that stay.
    """
    names = sorted(one.name for one in folder.iterdir() if one.name not in (guard, *keep))
    text = (folder / guard).read_text("utf-8")
    aside = _free(folder, formats, guard, text, names)
    aside.mkdir(exist_ok=True)
    for name in names:
        (folder / name).rename(aside / name)
    write_durably(aside / guard, text, _DRAFT)
    sync_folder(folder)
    return aside


def _free(
    folder: Path, formats: Mapping[str, int], guard: str, text: str, names: Collection[str]
) -> Path:
    """The first place without another checkpoint; one that a killed start has begun to fill is
    free.
    """

    def is_taken(place: Path) -> bool:
        return (place / guard).exists() and (
            (place / guard).read_text("utf-8") != text
            or any((place / name).exists() for name in names)
        )

    versions = "-".join(f"{part}-{version}" for part, version in sorted(formats.items()))
    places = (
        folder.with_name(f"{folder.name}.{versions}{f'-{number}' if number else ''}")
        for number in count()
    )
    return next(place for place in places if not is_taken(place))
