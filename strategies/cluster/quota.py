"""The quota of one cluster: which of its records are folded, and what is said of the others
(decision 0254).

A window is a minute of the records' own times, so that the same records give the same windows in
any division into micro-batches, and in a replay. A record joins the window that is up to
`_NEAR` minutes from it: a later minute begins a new window, an earlier one is late and counts in
it. Records of other times, such as those of a clock that is wrong, have windows of their own, so
they can neither use up nor renew the quota of the others.

A record is one piece of work, during which nothing else goes on. So bytes of a record beyond 1 MiB,
the most that a broker writes to ZooKeeper by default, count three times.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from strategies.cluster.rule_settings import BulkheadSettings
from strategies.reason_codes import Meaning

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
    """A record before it is decoded. `ts`: ms since the epoch; `size`: bytes that
    were read.
    """

    cluster: str
    ts: int
    size: int
    place: Place


@dataclass(frozen=True, slots=True)
class QuotaWindow:
    """Records and bytes, as they count, of a minute that were folded. `minute`: since the epoch."""

    minute: int
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class OverQuota:
    """Records that were set aside and not reported yet. `ts`, `size`: time (ms) and bytes
    of the first one.
    """

    records: int
    bytes: int
    first: Place
    last: Place
    ts: int
    size: int

    @property
    def text(self) -> str:
        """A sentence for the rejected row."""
        records = "1 record" if self.records == 1 else f"{self.records:,} records"
        return (
            f"{records} with {self.bytes:,} bytes, from {_place(self.first)} to "
            f"{_place(self.last)}, were beyond the cluster's quota for a minute of record time "
            "(bulkhead.*) and are not used; they are on the topic. Each minute has "
            "a new quota"
        )


@dataclass(frozen=True, slots=True)
class Bulkhead:
    """The quota's part of a cluster's state. `windows`: the one used last comes first; `aside`: of
    the newest windows; `left_out`: records set aside since the last round.
    """

    windows: tuple[QuotaWindow, ...] = ()
    aside: OverQuota | None = None
    left_out: int = 0


#: Nothing has arrived.
EMPTY = Bulkhead()


def admit(
    bulkhead: Bulkhead, arrival: UnreadRecord, brokers: int, settings: BulkheadSettings
) -> tuple[Bulkhead, bool, OverQuota | None]:
    """The quota after one record, whether the record is to be folded, and what was set aside before
    its window began. `brokers`: number in the last round. The first record of a window is always
    folded, whatever its size.
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
    """The window of a minute, the other windows, and whether it begins."""
    for i, window in enumerate(windows):
        if abs(minute - window.minute) <= _NEAR:
            others = (*windows[:i], *windows[i + 1 :])
            if minute <= window.minute:
                return window, others, False
            return QuotaWindow(minute), others, True
    return QuotaWindow(minute), windows[: _MOST_WINDOWS - 1], True


def _has_room(records: int, size: int, brokers: int, settings: BulkheadSettings) -> bool:
    """`records`: before this one; `size`: of all, with this one."""
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
