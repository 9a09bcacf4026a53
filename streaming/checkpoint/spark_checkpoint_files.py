"""The files of Spark in a checkpoint folder: its last micro-batch, the names of its schemas, and
where the folder goes when a new one takes its place. Imports no Spark.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path

from sinks.durable_files import naming, sync_folder, write_durably

_FOLDER = re.compile(r'file:[^"]*?(?=/state/\d+/_stateSchema/)')


def moved_aside(
    folder: Path, formats: Mapping[str, int], guard: str, keep: Collection[str]
) -> Path:
    """Moves the content of `folder` to a folder beside it, which is returned. Raises OSError.

    `formats`: versions of the state, for the name; `guard`: the file that makes it a checkpoint is
    copied, for it stays until a new one replaces it: a start after a kill finds the old checkpoint
    and its epoch, and moves the rest; `keep`: files that stay.
    """
    names = sorted(entry.name for entry in folder.iterdir() if entry.name not in (guard, *keep))
    text = (folder / guard).read_text("utf-8")
    aside = _free(folder, formats, guard, text, names)
    aside.mkdir(exist_ok=True)
    for name in names:
        (folder / name).rename(aside / name)
    write_durably(aside / guard, text, "moved.draft")
    sync_folder(folder)
    return aside


def _free(
    folder: Path, formats: Mapping[str, int], guard: str, text: str, names: Collection[str]
) -> Path:
    """Returns the first place without another checkpoint; one that a killed start has begun to fill
    is free.
    """

    def is_taken(place: Path) -> bool:
        return (place / guard).exists() and (
            (place / guard).read_text("utf-8") != text
            or any((place / name).exists() for name in names)
        )

    versions = "-".join(f"{part}-{version}" for part, version in sorted(formats.items()))
    return next(place for place in places_beside(folder, versions) if not is_taken(place))


def places_beside(folder: Path, ending: str) -> Iterator[Path]:
    """Names for another folder beside this one: with this ending, then with a number as well."""
    for number in count():
        yield folder.with_name(f"{folder.name}.{ending}{f'-{number}' if number else ''}")


def name_schemas(files: Path, folder: Path) -> None:
    """Changes the checkpoint in `files` to one whose place is `folder`: it was moved or copied, or
    will be. Spark names the files with the schemas of a state by their absolute paths. Raises
    OSError.
    """
    for file in files.glob("state/*/_metadata/v2/[0-9]*"):
        text = file.read_text("utf-8")
        renamed = _FOLDER.sub(lambda _: f"file:{folder}", text)
        if renamed != text:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            draft = file.with_name(f".{file.name}.draft")
            with naming(draft):
                draft.write_text(renamed, "utf-8")
            draft.replace(file)


def committed_batch(folder: Path) -> int | None:
    """Returns the last micro-batch of a checkpoint, -1 before the first; None if one was begun and
    not committed: it will be repeated.

    Read from Spark's logs: a file in `offsets` when a micro-batch begins, one in `commits` when it
    ends.
    """
    begun, done = _newest(folder / "offsets"), _newest(folder / "commits")
    return done if begun <= done else None


def _newest(log: Path) -> int:
    names = [entry.name for entry in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)
