"""Start position of a new reader: earliest, latest, or a time."""

from __future__ import annotations

from datetime import UTC, datetime


def start_ms(start: str) -> int | None:
    """The time in ms since 1970; None for `earliest` and `latest`. Raises ValueError,
    OverflowError.
    """
    if start in ("earliest", "latest"):
        return None
    if start.isdecimal():
        return int(start)
    time = datetime.fromisoformat(start)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def start_complaints(setting: str, start: str) -> list[str]:
    """Complaints about a start position; empty if it is valid."""
    try:
        start_ms(start)
    except (ValueError, OverflowError):
        return [
            f"{setting}: {start!r} is neither earliest nor latest nor a time such as "
            "2026-01-31T12:00:00Z"
        ]
    return []
