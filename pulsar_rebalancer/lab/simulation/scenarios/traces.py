"""Trace files: the figures of a file become the factors of the wave that names it."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, isfinite
from pathlib import Path
from typing import Any

from strategies.errors import SettingsError


def with_recorded(path: Path, tree: dict[str, Any]) -> dict[str, Any]:
    """The scenario with the factors of all its trace files. Raises SettingsError with file and
    line.
    """
    flows = tree.get("traffic")
    if not isinstance(flows, list | tuple):
        return tree
    return tree | {
        "traffic": [_flow(path, flow) if isinstance(flow, dict) else flow for flow in flows]
    }


def _flow(path: Path, flow: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _wave(path, value)
        if key in ("wave", "consumers") and isinstance(value, dict)
        else value
        for key, value in flow.items()
    }


def _wave(path: Path, wave: dict[str, Any]) -> dict[str, Any]:
    file = wave.get("file")
    if not isinstance(file, str):
        return wave
    if "factors" in wave:
        raise SettingsError([f"{path}: a trace has factors = [...] or file = {file!r}, not both"])
    column = wave.get("column")
    return wave | {
        "factors": _factors(path.parent / file, column if isinstance(column, str) else None)
    }


def _factors(file: Path, column: str | None) -> list[float]:
    """One figure per line; of several columns, the one with this name in the first line, by default
    the last.

    Skips empty lines and lines that begin with #.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            [f"{file}: the trace cannot be read ({error}); write one figure per line"]
        ) from error
    place = -1 if column is None else _place(file, lines[0] if lines else "", column)
    rows = [
        (number, line.split(","))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    cells = [(number, row[place].strip() if place < len(row) else "") for number, row in rows]
    figures = [_figure(file, number, text) for number, text in cells]
    mean = fsum(figures) / len(figures) if figures else 0.0
    if mean <= 0:
        raise SettingsError(
            [
                f"{file}: no figure is above 0{'' if column is None else f' for {column}'}; "
                "write one figure per line"
            ]
        )
    return [figure / mean for figure in figures]


def _place(file: Path, heading: str, column: str) -> int:
    names = (
        [name.strip() for name in heading.lstrip("#").split(",")] if heading.startswith("#") else []
    )
    if column not in names:
        there = (
            f"there are {', '.join(names)}"
            if names
            else "its first line has no names; begin it with # and the names"
        )
        raise SettingsError([f"{file}: no column {column!r}; {there}"])
    return names.index(column)


def _figure(file: Path, number: int, text: str) -> float:
    try:
        figure = float(text)
    except ValueError as error:
        raise SettingsError([f"{file}:{number}: {text!r} is not a number"]) from error
    if not isfinite(figure) or figure < 0:
        raise SettingsError([f"{file}:{number}: {text} is not a load; write numbers of 0 or more"])
    return figure
