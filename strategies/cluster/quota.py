"""Admits a cluster's records up to a quota per minute, and counts the others (decision 0254).

A window is a minute of the records' own times, so that the same records give the same windows
however they are divided into micro-batches, and in a replay. A record up to `_NEAR` minutes away
from a window belongs to it: if its minute is later it begins the window again, if it is earlier it
is late and counts in the window. Records of other times, such as those of a wrong clock, have
windows of their own, so they neither use up nor renew the quota of the others.

A stateful task does nothing else while it folds one record. So bytes of a record beyond 1 MiB, the
largest value that a broker writes to ZooKeeper by default, count three times.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from strategies.settings import BulkheadSettings
from strategies.states_and_advice_of_codes import Meaning

#: Code of the rejected row of a window, and of the skip of a round.
OVER_QUOTA: Final = "over-quota"
#: The reason codes of this module.
MEANINGS = (
    Meaning(
        OVER_QUOTA,
        "set-aside",
        110,
        "Find what sends these records (the rejected topic names their "
        "positions), or raise bulkhead.*. The next minute has a new quota.",
    ),
)
_MINUTE_MS = 60_000
_NEAR = 5
_MOST_WINDOWS = 8
_USUAL_BYTES, _TIMES = 2**20, 3

#: Topic, partition, offset.
Place = tuple[str, int, int]


class UnreadRecord(NamedTuple):
    """A record before it is decoded."""

    #: Its time (ms since the epoch).
    ts: int
    #: Number of bytes that were read.
    size: int
    place: Place


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """The part of the quota of one minute that is used."""

    #: Minutes since the epoch.
    minute: int
    #: Number of admitted records, and their bytes as they count.
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class OverQuota:
    """Records over the quota that no rejected row reports yet."""

    #: Number of records, and their bytes.
    records: int
    bytes: int
    first: Place
    last: Place
    #: Time (ms since the epoch) and bytes of the first one.
    ts: int
    size: int

    @property
    def text(self) -> str:
        """The sentence of the rejected row."""
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        return (
            f"{records} with {self.bytes:,} bytes, from {_place(self.first)} to "
            f"{_place(self.last)}, were beyond the cluster's quota for a minute of record time "
            "(bulkhead.*) and are not used; they are on the topic. Each minute has "
            "a new quota"
        )


@dataclass(frozen=True, slots=True)
class Bulkhead:
    """The quota's part of a cluster's state."""

    #: The window used last comes first.
    windows: tuple[QuotaWindow, ...] = ()
    #: Records over the quota of the window used last.
    aside: OverQuota | None = None
    #: Number of records over the quota since the last round.
    left_out: int = 0


#: The quota of a cluster without records so far.
EMPTY = Bulkhead()


def admit(
    bulkhead: Bulkhead, arrival: UnreadRecord, brokers: int, settings: BulkheadSettings
) -> tuple[Bulkhead, bool, OverQuota | None]:
    """Counts one record. Returns the quota after it, True if the record is to be folded, and the
    records over the quota that are to be reported because a window begins. `brokers`: number of
    brokers in the last round. The first record of a window is admitted whatever its size.
    """
    window, others, begins = _find_window(bulkhead.windows, arrival.ts // _MINUTE_MS)
    earlier = bulkhead.aside if begins else None
    aside = None if begins else bulkhead.aside
    unusual = max(0, arrival.size - _USUAL_BYTES)
    size = window.bytes + arrival.size + (_TIMES - 1) * unusual
    if window.records and not _has_room(window.records, size, brokers, settings):
        aside = _add_record(aside, arrival)
        left_out = bulkhead.left_out + 1
        return Bulkhead((window, *others), aside, left_out), False, earlier
    window = QuotaWindow(window.minute, window.records + 1, size)
    return Bulkhead((window, *others), aside, bulkhead.left_out), True, earlier


def _find_window(
    windows: tuple[QuotaWindow, ...], minute: int
) -> tuple[QuotaWindow, tuple[QuotaWindow, ...], bool]:
    """Returns the window of a minute, the other windows, and True if the window begins."""
    for i, window in enumerate(windows):
        if abs(minute - window.minute) <= _NEAR:
            others = (*windows[:i], *windows[i + 1 :])
            if minute <= window.minute:
                return window, others, False
            return QuotaWindow(minute), others, True
    return QuotaWindow(minute), windows[: _MOST_WINDOWS - 1], True


def _has_room(records: int, size: int, brokers: int, settings: BulkheadSettings) -> bool:
    """True if a record fits. `records`: number before it; `size`: bytes of all, with this one."""
    grows = settings.bytes_per_broker * brokers if brokers else settings.first_bytes
    return records < max(settings.records, settings.records_per_broker * brokers) and size <= max(
        settings.bytes, grows
    )


def _add_record(aside: OverQuota | None, arrival: UnreadRecord) -> OverQuota:
    if aside is None:
        place, size = arrival.place, arrival.size
        return OverQuota(1, size, place, place, arrival.ts, size)
    return replace(
        aside,
        records=aside.records + 1,
        bytes=aside.bytes + arrival.size,
        last=arrival.place,
    )


def _place(place: Place) -> str:
    return f"{place[1]}/{place[2]}"
