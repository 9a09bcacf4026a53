"""Lists and times that an operator sets: patterns of namespaces and brokers, and maintenance
windows, in which bundles may move.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from strategies.bundles import namespace_of
from strategies.errors import SettingsError

_BRACKETED = re.compile(r"\s*\[([^\[\]]*)\]\s*")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY_MIN = 24 * 60
#: 1 January 1970 was a Thursday.
_EPOCH_DAY = 3
_DAY = "|".join(_DAYS)
_WINDOW = re.compile(
    rf"(?:({_DAY})(?:-({_DAY}))?\s+)?([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)"
)


def patterns(text: str) -> tuple[str, ...]:
    """The patterns of a list, which may stand in brackets, as Pulsar prints it."""
    bracketed = _BRACKETED.fullmatch(text)
    text = bracketed[1] if bracketed else text
    return tuple(entry for entry in (part.strip() for part in text.split(",")) if entry)


def matcher(text: str) -> Callable[[str], bool]:
    """Returns a function: whether a name matches a list. An empty list matches no name."""
    named = patterns(text)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in named)


def of_namespaces(text: str) -> Callable[[str], bool]:
    """Returns a function: whether the namespace of a bundle matches a list."""
    if not patterns(text):
        return lambda _: False
    is_named = cache(matcher(text))
    return lambda bundle: is_named(namespace_of(bundle))


@dataclass(frozen=True, slots=True)
class Window:
    """From `begin` (inclusive) to `end` (exclusive), in minutes of the day; a window over midnight
    belongs to the day of its begin.
    """

    days: frozenset[int]
    begin: int
    end: int

    def holds(self, day: int, minute: int) -> bool:
        """Whether this minute of this day of the week (Monday is 0) is inside the window."""
        if self.begin < self.end:
            return day in self.days and self.begin <= minute < self.end
        return (day in self.days and minute >= self.begin) or (
            (day - 1) % 7 in self.days and minute < self.end
        )


def read_windows(text: str, path: str) -> tuple[Window, ...]:
    """Parses the windows of a setting; none for an empty one. Raises SettingsError whose complaints
    begin with `path`.
    """
    found = [(entry, _WINDOW.fullmatch(entry)) for entry in patterns(text)]
    wrong = [entry for entry, match in found if match is None]
    if wrong:
        raise SettingsError(
            [
                f"{path}: {entry!r} is no window; write it as 22:00-06:00 or Mon-Fri 22:00-06:00"
                for entry in wrong
            ]
        )
    return tuple(_window(match) for _, match in found if match is not None)


def is_open(windows: Sequence[Window], now_ms: int, utc_offset_minutes: int = 0) -> bool:
    """Whether this instant is in one of the windows; without windows, every instant is."""
    day, minute = divmod(now_ms // 60_000 + utc_offset_minutes, _DAY_MIN)
    return not windows or any(window.holds((day + _EPOCH_DAY) % 7, minute) for window in windows)


def _window(match: re.Match[str]) -> Window:
    first, last, begin_h, begin_min, end_h, end_min = match.groups()
    end = _DAY_MIN if end_h is None else int(end_h) * 60 + int(end_min)
    return Window(_days(first, last), int(begin_h) * 60 + int(begin_min), end)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))
