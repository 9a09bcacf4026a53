"""Spark names the files with the schemas of a state by their absolute paths; here they get those of
the folder in which the checkpoint is. Imports no Spark.
"""

from __future__ import annotations

import re
from pathlib import Path

from sinks.disk import naming

_FOLDER = re.compile(r'file:[^"]*?(?=/state/\d+/_stateSchema/)')


def name_schemas(files: Path, folder: Path) -> None:
    """Changes the checkpoint in `files` to one whose place is `folder`: it was moved or copied, or
    will be. Raises OSError.
    """
    for file in files.glob("state/*/_metadata/v2/[0-9]*"):
        text = file.read_text("utf-8")
        named = _FOLDER.sub(lambda _: f"file:{folder}", text)
        if named != text:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            draft = file.with_name(f".{file.name}.draft")
            with naming(draft):
                draft.write_text(named, "utf-8")
            draft.replace(file)
