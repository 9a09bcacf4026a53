"""Times of the past in a command line."""

import re
from datetime import UTC, datetime

from strategies.errors import SettingsError

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment_ms(option: str, text: str, last_ms: int) -> int:
    """`2h`, `30m`, `1d` before `last_ms`, the newest record, or an ISO time, by default in UTC, as
    ms since the epoch. Raises SettingsError that begins with `option`.
    """
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return last_ms - int(float(ago[1]) * _SECONDS[ago[2]] * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            [
                f"{option}: {text!r} is not a time; write a duration before the newest record "
                "(2h, 30m, 1d) or a UTC time (2026-11-20T23:51)"
            ]
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
