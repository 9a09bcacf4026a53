"""Parses Java's properties syntax like `java.util.Properties`, with the line number of each key,
and lines of a shell, such as `export NAME=value` and `docker run -e NAME=value`.

A line that ends with an odd number of backslashes continues on the next.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strategies.errors import SettingsError

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SHELL = re.compile(
    r"(?:sudo|export|declare|set|env|ENV|docker|podman|kubectl|helm|--?e(?:nv)?)[ \t]"
    r"|--env=|Environment="
)
_ASSIGNED = re.compile(r"(?:--env=|Environment=)?(?:[\w-]+\.)*([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Property:
    """A key with its value; `line`: its first line, counted from 1; `remark`: what a person should
    know about how it is written, or empty.
    """

    key: str
    value: str
    line: int
    remark: str = ""


def properties_in(file: Path, text: str, first: int = 1) -> list[Property]:
    """All properties in the order of the text, repeated keys included. `first`: the number of its
    first line. SettingsError names the file and invalid lines.
    """
    found, complaints = list[Property](), []
    for line, logical in logical_lines(text, first):
        try:
            found += _assigned(logical, line) if _SHELL.match(logical) else [_one(logical, line)]
        except ValueError as error:
            complaints.append(f"{file}:{line}: {error}")
    if complaints:
        raise SettingsError(complaints)
    return found


def logical_lines(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, without comments and blank lines; each with the number
    of the line where it begins.
    """
    begun, parts = 0, list[str]()
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=first):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        begun = begun if parts else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        parts.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield begun, "".join(parts)
            parts = []
    if parts:
        yield begun, "".join(parts)


def _one(text: str, line: int) -> Property:
    match = _KEY.fullmatch(text)
    key, value = match.groups() if match else (text, "")
    return Property(_unescaped(key), _unescaped(value), line)


def _assigned(text: str, line: int) -> list[Property]:
    """The variables that a line of a shell sets; the shell takes the quotes."""
    try:
        words = shlex.split(re.split(r"[ \t]#", text)[0])
    except ValueError:
        raise ValueError("a quotation mark has no partner") from None
    return [
        Property(match[1], match[2].rstrip(";"), line)
        for match in map(_ASSIGNED.fullmatch, words)
        if match is not None
    ]


def _unescaped(text: str) -> str:
    return (
        _ESCAPE.sub(lambda match: _meaning(match[1]), text)
        .encode("utf-16", "surrogatepass")
        .decode("utf-16", "replace")
    )  # two escapes may form a surrogate pair


def _meaning(escaped: str) -> str:
    if escaped == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)
