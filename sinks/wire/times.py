"""Recognises the time of a record in another unit than milliseconds since 1970."""

from __future__ import annotations

from strategies.errors import WireError

#: What belongs there, for messages.
MILLISECONDS = "send milliseconds since 1970"
#: 2001 to 2100, in seconds.
_BEGIN, _END = 978_307_200, 4_102_444_800
#: Unit → how many of them are a second.
_UNITS = {"seconds": 1, "microseconds": 10**6, "nanoseconds": 10**9}


def other_unit(time: float) -> str:
    """The unit, if the number is a time of this century in another one; otherwise empty."""
    return next((unit for unit, per in _UNITS.items() if _BEGIN * per <= time < _END * per), "")


def check_time(ts: float) -> None:
    """Raises WireError for a time in another unit: in milliseconds, seconds are January 1970."""
    unit = other_unit(ts)
    if unit:
        right = int(ts * 1000 // _UNITS[unit])
        raise WireError(
            "out-of-range", f"$.ts is {ts}, a time in {unit}; {MILLISECONDS}, here {right}."
        )
