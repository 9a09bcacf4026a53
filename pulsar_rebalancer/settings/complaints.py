"""Complaints about values, one sentence each: dotted path, what is wrong, and the source of the
value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pulsar_rebalancer.settings.leaves import Leaf, words_of
from pulsar_rebalancer.settings.sources import Assignment, did_you_mean

_WRONG_TYPE = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
}


def about_paths(assignments: Sequence[Assignment], leaves: Sequence[Leaf]) -> list[str]:
    """Complaints about paths that are not settings."""
    known = {leaf.path for leaf in leaves}
    tables = _tables(known)
    complaints: dict[tuple[str, str], str] = {}
    for given in assignments:
        if given.path not in known and not (given.path in tables and given.value == {}):
            path, sentence = _misplaced(given, known, tables)
            complaints.setdefault((path, given.source), f"{path}: {sentence} ({given.source})")
    return list(complaints.values())


def about_values(
    error: ValidationError, leaves: Sequence[Leaf], sources: Mapping[str, str]
) -> list[str]:
    """Complaints about values of the wrong type or out of bounds. `sources`: dotted path → source
    of the value.
    """
    by_path = {leaf.path: leaf for leaf in leaves}
    complaints: dict[str, str] = {}
    for details in error.errors(include_url=False):
        path = _leaf_path(details["loc"], by_path)
        complaints.setdefault(
            path, f"{path}: {_wrong(details, by_path.get(path))} ({sources.get(path, 'default')})"
        )
    return list(complaints.values())


def shown(value: Any) -> str:
    """A value as written in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:57]}..."


def _misplaced(given: Assignment, known: set[str], tables: set[str]) -> tuple[str, str]:
    above = next((path for path in known if given.path.startswith(f"{path}.")), None)
    if above is not None:
        return above, "must be a single value, got a table"
    if given.path in tables:
        return (
            given.path,
            f"is a table, got {shown(given.value)}; write its keys below [{given.path}]",
        )
    return given.path, f"unknown setting{_suggestion(given.path, known | tables)}"


def _suggestion(path: str, known: set[str]) -> str:
    close = get_close_matches(path, known, n=1, cutoff=0.8)
    if not close:
        key = path.rpartition(".")[2]
        by_key: dict[str, str] = {}
        for other in sorted(known):
            by_key.setdefault(other.rpartition(".")[2], other)
        close = [by_key[name] for name in get_close_matches(key, by_key, n=1, cutoff=0.8)]
    return (
        f"; did you mean {close[0]}?" if close else "; `rebalancer config show` lists all settings"
    )


def _tables(known: set[str]) -> set[str]:
    found: set[str] = set()
    for path in known:
        parts = path.split(".")
        found.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
    return found


def _leaf_path(location: tuple[int | str, ...], by_path: Mapping[str, Leaf]) -> str:
    """The setting's own path: pydantic appends the tried alternative of a union to the location."""
    parts = [str(part) for part in location]
    while parts and ".".join(parts) not in by_path:
        parts.pop()
    return ".".join(parts) or ".".join(str(part) for part in location)


def _wrong(details: ErrorDetails, leaf: Leaf | None) -> str:
    got, context = shown(details["input"]), details.get("ctx", {})
    unit = f" {leaf.setting.unit}" if leaf is not None and leaf.setting.unit else ""
    match details["type"]:
        case "greater_than_equal":
            return f"must be at least {_number(context['ge'])}{unit}, got {got}"
        case "less_than_equal":
            return f"must be at most {_number(context['le'])}{unit}, got {got}"
        case "literal_error":
            return f"must be one of {context['expected']}, got {got}{_near(details)}"
        case "bool_type":
            options = ["true", "false", *(words_of(leaf.kind) if leaf is not None else ())]
            return f"must be {', '.join(options[:-1])} or {options[-1]}, got {got}"
        case "string_type" if isinstance(details["input"], list):
            return (
                "must be a string, got a list; write several values into one string, separated by "
                "commas"
            )
        case other:
            return f"{_WRONG_TYPE.get(other, details['msg'])}, got {got}"


def _near(details: ErrorDetails) -> str:
    """A similar word; a similar number is no slip of the pen."""
    if not any(letter.isalpha() for letter in str(details["input"])):
        return ""
    options = [
        option.strip("'")
        for option in str(details.get("ctx", {}).get("expected", ""))
        .replace(" or ", ", ")
        .split(", ")
    ]
    return did_you_mean(str(details["input"]), options, 0.6)


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
