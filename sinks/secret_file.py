"""Secrets stand in files of their own; what is read from one never shows itself in texts, reprs or tracebacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from strategies.errors import SettingsError

_LARGEST = 64 * 2**10
_LARGEST_PEM = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Secret:
    """Bytes that nobody prints by accident; `reveal` hands them out."""

    _value: bytes = field(repr=False)

    def reveal(self) -> bytes:
        """The bytes themselves, for the one call that needs them."""
        return self._value

    def __str__(self) -> str:
        return "Secret(…)"


def read_secret(path: str, setting: str, largest: int = _LARGEST) -> Secret:
    """The file's content without white space around it; `setting` is the dotted path that named the file. Raises SettingsError."""
    try:
        with Path(path).open("rb") as file:
            value = file.read(largest + 1).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no legal name of a file"
        raise SettingsError([f"{setting}: {path} cannot be read ({reason}); name a file that this user may read"]) from None
    if not value:
        raise SettingsError([f"{setting}: {path} is empty; put the secret into it"])
    if len(value) > largest:
        raise SettingsError([f"{setting}: {path} is larger than {largest} bytes, so it is not the secret; name the right file"])
    return Secret(value)


def read_pem(path: str, setting: str, holds: str) -> Secret:
    """A file of certificates or keys, such as all that a system trusts. `holds`: the end of a block's title. Raises SettingsError."""
    found = read_secret(path, setting, _LARGEST_PEM)
    if f"{holds}-----".encode() not in found.reveal():
        raise SettingsError([f"{setting}: {path} holds no {holds.lower()} in PEM form (-----BEGIN …-----); name a file that does"])
    return found
