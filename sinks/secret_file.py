"""Secrets are read from files of their own and never appear in messages, reprs or tracebacks."""

from dataclasses import dataclass, field
from pathlib import Path

from strategies.errors import SettingsError

_LARGEST = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Secret:
    """Bytes that do not appear when the object is printed; `reveal` returns them."""

    _value: bytes = field(repr=False)

    def reveal(self) -> bytes:
        """The secret itself, for the call that needs it."""
        return self._value

    def __str__(self) -> str:
        return "Secret(…)"


def read_secret(
    path: str, setting: str, largest: int = _LARGEST, *, is_token: bool = False
) -> Secret:
    """The file's content without surrounding white space. `setting`: the key that names the file;
    `is_token`: whether it must be one word of ASCII, as a header takes it. Raises SettingsError.
    """
    try:
        with Path(path).open("rb") as file:
            value = file.read(largest + 1).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid file name"
        raise SettingsError(
            [f"{setting}: {path} cannot be read ({reason}); name a file that this user may read"]
        ) from None
    if not value:
        raise SettingsError([f"{setting}: {path} is empty; put the secret into it"])
    if len(value) > largest:
        raise SettingsError(
            [
                f"{setting}: {path} is larger than {largest} bytes, so it is not the secret; "
                "name the right file"
            ]
        )
    if is_token and not all(33 <= byte <= 126 for byte in value):
        raise SettingsError(
            [
                f"{setting}: {path} contains more than one word, or other than ASCII; put only "
                "the token into it"
            ]
        )
    return Secret(value)


def read_pem(path: str, setting: str, holds: str) -> Secret:
    """A PEM file of one or more certificates or keys. `holds`: the end of a block's title. Raises
    SettingsError.
    """
    found = read_secret(path, setting, 4 * 2**20)
    if f"{holds}-----".encode() not in found.reveal():
        raise SettingsError(
            [
                f"{setting}: {path} contains no {holds.lower()} in PEM form (-----BEGIN "
                "…-----); name a file that does"
            ]
        )
    return found
