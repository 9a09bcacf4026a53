"""The text of a settings file from single settings."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def settings_text(
    head: str, tables: Mapping[str, Mapping[str, Any]], why: Mapping[str, str] | None = None
) -> str:
    """TOML with one table per entry of `tables` (dotted name → key → value). `head`: first line, a
    comment; `why`: comments by the setting's path.
    """
    lines = [head]
    for table, values in tables.items():
        lines += ["", f"[{table}]"]
        for key, value in values.items():
            comment = (why or {}).get(f"{table}.{key}")
            lines += [] if comment is None else [f"# {comment}"]
            lines.append(f"{key} = {toml(value)}")
    return "\n".join([*lines, ""])


def by_table(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Dotted path → value, as table → key → value."""
    tables: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        table, _, key = path.rpartition(".")
        tables.setdefault(table, {})[key] = value
    return tables


def toml_key(name: str) -> str:
    """A name as part of a dotted key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else toml(name)


def toml(value: Any) -> str:
    """A string, number, boolean or list of them as TOML, which accepts JSON's escapes except
    surrogate pairs.
    """
    return json.dumps(
        list(value) if isinstance(value, tuple) else value, ensure_ascii=False
    ).replace("\x7f", "\\u007f")
