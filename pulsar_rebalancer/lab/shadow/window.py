"""The compared time range of a log, by the log's own clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from strategies.errors import SettingsError

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class ComparedWindow:
    """Start and end in ms, inclusive; None = open."""

    since_ms: int | None = None
    until_ms: int | None = None

    def __contains__(self, ts: int) -> bool:
        return (self.since_ms is None or ts >= self.since_ms) and (
            self.until_ms is None or ts <= self.until_ms
        )


def window(since: str | None, until: str | None, last_ms: int) -> ComparedWindow:
    """Parses times: `2h`, `30m`, `1d` before `last_ms`, the newest record, or an ISO time, by
    default in UTC. Raises SettingsError.
    """
    found = ComparedWindow(
        None if since is None else _moment("--since", since, last_ms),
        None if until is None else _moment("--until", until, last_ms),
    )
    if (
        found.since_ms is not None
        and found.until_ms is not None
        and found.since_ms > found.until_ms
    ):
        raise SettingsError([f"--since {since} is after --until {until}; exchange the two"])
    return found


def _moment(option: str, text: str, last_ms: int) -> int:
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
