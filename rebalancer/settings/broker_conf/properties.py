"""Parses Java's properties syntax like `java.util.Properties`, with the line number of each key.

Reads files as ISO 8859-1, as Java does; a line that ends with an odd number of backslashes
continues on the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strategies.errors import SettingsError

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Property:
    """A key with its value; `line`: its first line, counted from 1."""

    key: str
    value: str
    line: int


def read_properties(file: Path) -> list[Property]:
    """All properties in the order of the file, repeated keys included. SettingsError names the file
    and invalid lines.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise SettingsError(
            [f"{file}: cannot be read ({error.strerror}); name the broker.conf of a Pulsar broker"]
        ) from error
    found, complaints = [], []
    for line, text in _logical_lines(data.removeprefix(_BYTE_ORDER_MARK).decode("iso-8859-1")):
        try:
            found.append(_property(text, line))
        except ValueError as error:
            complaints.append(f"{file}:{line}: {error}")
    if complaints:
        raise SettingsError(complaints)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined with their continuations, without comments and blank lines."""
    begun, parts = 0, list[str]()
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
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


def _property(text: str, line: int) -> Property:
    match = _KEY.fullmatch(text)
    key, value = match.groups() if match else (text, "")
    return Property(_unescaped(key), _unescaped(value), line)


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
