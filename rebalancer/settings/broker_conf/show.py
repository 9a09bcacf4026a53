"""Shows a converted broker.conf as a settings file with the origin of each line, or as one JSON
document.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rebalancer.settings.broker_conf.convert import Conversion, KeyOutcome
from rebalancer.settings.file_text import toml


def as_toml(file: Path, conversion: Conversion) -> str:
    """Settings by table, each with its key in broker.conf; all other known keys follow as
    comments.
    """
    lines = [
        f"# Settings from {_one_line(file)}. Settings without a key keep our default; "
        "`rebalancer config show` lists everything.",
        '# [shedding] mode = "parity" decides exactly as Pulsar does; the default "fixed" '
        "repairs the known defects of its rules.",
    ]
    paths = sorted(conversion.settings, key=lambda path: path.rpartition(".")[0])
    for section, group in groupby(paths, key=lambda path: path.rpartition(".")[0]):
        lines += ["", f"[{section}]"]
        lines += [
            f"{path.rpartition('.')[2]} = {toml(conversion.settings[path])}  # "
            f"{_origin(file, conversion, path)}"
            for path in group
        ]
    lines += ["", "# Set in the file, without effect:", *_comments(conversion, "no effect")]
    lines += [
        "",
        "# Known, but not set in the file (with Pulsar's default):",
        *_comments(conversion, "not set"),
    ]
    return "\n".join(lines) + "\n"


def as_json(file: Path, conversion: Conversion) -> dict[str, Any]:
    """The conversion as data for JSON."""
    return {
        "file": str(file),
        "settings": dict(conversion.settings),
        "keys": [_key(outcome) for outcome in conversion.keys],
        "warnings": list(conversion.warnings),
    }


def _origin(file: Path, conversion: Conversion, path: str) -> str:
    origin = conversion.origins[path]
    return _one_line(
        origin.replace(f"{file}:", "line ", 1) if origin.startswith(f"{file}:") else origin
    )


def _comments(conversion: Conversion, result: str) -> Iterator[str]:
    for outcome in conversion.keys:
        if outcome.result == result:
            value = outcome.key.default if outcome.value is None else outcome.value
            why = f"  ({outcome.why})" if outcome.why else ""
            yield f"#   {outcome.key.name} = {_one_line(toml(value))}{_one_line(why)}"


def _key(outcome: KeyOutcome) -> dict[str, Any]:
    return {
        "key": outcome.key.name,
        "line": outcome.line,
        "value": outcome.value,
        "default": outcome.key.default,
        "result": outcome.result,
        "settings": list(outcome.settings),
        "why": outcome.why or None,
    }


def _one_line(text: object) -> str:
    """Text without line breaks, which would end a comment."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(text)
    )
