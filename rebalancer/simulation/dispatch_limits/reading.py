"""One read of a dispatcher: how many entries and bytes it asks for, and what it charges afterwards.

Source of the rule: `PersistentDispatcherMultipleConsumers` (shared, key-shared), `PersistentDispatcherSingleActiveConsumer`,
`Consumer.getAvgMessagesPerEntry` and `EntryCountEstimator` of Pulsar 4.2.4. Looking, reading and charging are three steps: who looks
between another's look and charge sees the same tokens, which is how shared limits are overrun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from rebalancer.simulation.dispatch_limits.levels import Allowance, DispatchSettings, Limits, allowed
from rebalancer.simulation.dispatch_limits.rates import Scope

#: A throttled dispatcher looks again after this long, whatever the limits say.
RETRY_MS = 1000
#: What an entry costs besides its bytes.
ENTRY_OVERHEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """What a dispatcher knows before a read: permits of its consumers, whether they can take anything, its batch size and its cursor."""

    permits: int
    batch_entries: int
    messages_per_entry: int = 1
    writable: bool = True
    active: bool = False
    single_active: bool = False


@dataclass(frozen=True, slots=True)
class ReadSize:
    """The most entries and bytes to read; 0 entries: wait `RETRY_MS` (`throttled_by` not empty) or for permits."""

    entries: int
    bytes: int
    throttled_by: tuple[Scope, ...] = ()


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What a read led to: entries that were sent and what filters dropped (both with messages inside, and bytes)."""

    entries: int
    messages: int
    bytes: int
    filtered_entries: int = 0
    filtered_messages: int = 0
    filtered_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """One ledger from its first entry on: how many entries and bytes it holds."""

    entries: int
    bytes: int


def is_active(*, has_consumers: bool, backlog: int, settings: DispatchSettings, by_expected_reads: bool = True) -> bool:
    """Whether a cursor counts as active. Where the cache evicts by expected reads (the default) the backlog does not matter."""
    return has_consumers and (by_expected_reads or backlog <= settings.backlog_threshold)


def batch_after(size: int, settings: DispatchSettings, *, succeeded: bool) -> int:
    """The batch size after a read: the smallest after a failure, twice as much (up to the largest) after a success."""
    return min(size * 2, settings.max_read_entries) if succeeded else min(settings.min_read_entries, settings.max_read_entries)


def messages_per_entry(before: int | None, entries: int, messages: int) -> int:
    """A consumer's running average after a dispatch of at least one entry: first the figure itself, then nine parts old, one part new."""
    if before is None:
        return max(1, floor(messages / entries + 0.5))
    return floor(before * 0.9 + 0.1 * messages / entries + 0.5)


def wanted_entries(dispatcher: Dispatcher, settings: DispatchSettings) -> int:
    """How many entries the consumers could take, limits aside."""
    if not dispatcher.writable and not dispatcher.single_active:
        return 1
    permits = dispatcher.permits if dispatcher.writable else 1
    if settings.precise_flow_control:
        permits = -(-permits // max(1, dispatcher.messages_per_entry))
    return min(permits, dispatcher.batch_entries)


def next_read(dispatcher: Dispatcher, limits: Limits, settings: DispatchSettings) -> ReadSize:
    """What to read now. `limits` are those of the dispatcher's path, as seen at this moment."""
    if dispatcher.permits <= 0:
        return ReadSize(0, 0)
    asked = Allowance(wanted_entries(dispatcher, settings), settings.max_read_bytes)
    if is_throttled(dispatcher, settings):
        asked = allowed(limits, asked.entries, asked.bytes)
        if asked.is_blocked:
            return ReadSize(0, 0, asked.by)
    return ReadSize(max(asked.entries, 1), max(asked.bytes, 1), asked.by)


def charge(dispatched: Dispatched, dispatcher: Dispatcher, limits: Limits, settings: DispatchSettings, now_ns: int) -> Limits:
    """The limits after what was sent, filtered entries included if they count; redelivered messages are charged like others."""
    if not is_throttled(dispatcher, settings):
        return limits
    messages = dispatched.entries if settings.count_batches else dispatched.messages
    bytes_ = dispatched.bytes
    if settings.charge_filtered:
        messages += dispatched.filtered_entries if settings.count_batches else dispatched.filtered_messages
        bytes_ += dispatched.filtered_bytes
    return limits.charged(messages, bytes_, now_ns)


def is_throttled(dispatcher: Dispatcher, settings: DispatchSettings) -> bool:
    """Whether limits apply to a dispatcher; it is both asked and charged, or neither."""
    return settings.throttle_active_cursors or not dispatcher.active


def entries_for(bytes_: int, limit: int, ledgers: Sequence[ReadLedger], first_entry: int = 0) -> int:
    """How many entries fit into `bytes_`, between 1 and `limit`, judged by the mean sizes of the ledgers from the read position on.

    `first_entry` is the position in the first of `ledgers`.
    """
    if bytes_ <= 0:
        return 1
    found, left, mean = 0, bytes_, 0
    for ledger in (ledger for ledger in ledgers if ledger.entries > 0):
        mean = max(1, ledger.bytes // ledger.entries) + ENTRY_OVERHEAD_BYTES
        skipped, first_entry = min(first_entry, ledger.entries), 0
        whole = ledger.bytes + ENTRY_OVERHEAD_BYTES * ledger.entries
        if skipped == 0 and left >= whole:
            found, left = found + ledger.entries, left - whole
        else:
            taken = min(max(1, left // mean), ledger.entries - skipped)
            found, left = found + taken, left - taken * mean
        if found >= limit or left <= 0:
            return max(1, min(found, limit))
    return max(1, min(found + left // mean if mean else 1, limit))
