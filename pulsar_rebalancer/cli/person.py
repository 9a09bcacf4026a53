"""The name of the person who decides something at a command line."""

import getpass

from strategies.errors import SettingsError


def person_of(by: str | None) -> str:
    """The person who decides something: `by`, otherwise the login of this user. Raises
    SettingsError.
    """

    try:
        return by or getpass.getuser()
    except (KeyError, OSError):
        raise SettingsError(["--by: this user has no login; write your name"]) from None
