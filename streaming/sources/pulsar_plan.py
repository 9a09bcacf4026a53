"""Finds where the next micro-batch of a Pulsar topic ends, by reading ahead: only a message itself tells its id and its size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from sinks.topics.pulsar.message import MessageId
from sinks.topics.pulsar.partition import Read
from sinks.topics.start_position import start_ms
from strategies.errors import PublishTimeout, SinkError
from streaming.sources.records import WORTH_A_TASK

#: How an offset looks in the checkpoint: partition → ledger, entry, place in the batch, and how many records were taken up to there.
Offsets = dict[str, list[int]]
DELETED = (
    "raise the topic's retention; to go on with what is there, set pulsar.fail_on_data_loss=false for one start (which leaves a gap), or "
    "name a new job.checkpoint"
)
#: A partition gives at most so many records before the next one has its turn.
_TURN = 100
_LOOK_EVERY_S = 0.001
#: No message of an entry comes behind it: Pulsar's protocol has 31 bits for the place.
_LAST_IN_ENTRY = 2**31 - 1
#: How often it is asked whether a topic has more partitions.
_PARTITIONS_EVERY_S = 30.0


class Place(NamedTuple):
    """Where a partition is read on: behind a message (None: from the oldest), and how many records were taken before."""

    after: MessageId | None = None
    taken: int = 0

    def offset(self) -> list[int]:
        """As it stands in the checkpoint."""
        return [*(self.after or (-1, -1, -1)), self.taken]


class Plan(NamedTuple):
    """What one task reads: `records` messages of partition `number`, which is called `name`, behind `after` up to and with `end`."""

    number: int
    name: str
    after: MessageId | None
    end: MessageId
    records: int


class Seen(NamedTuple):
    """A message that was read ahead."""

    id: MessageId
    size: int


class Reader(Protocol):
    """One partition; see `PartitionReader`."""

    at: MessageId | None

    @property
    def connected(self) -> bool: ...
    def read(self, timeout_s: float) -> Read | None: ...
    def more(self) -> bool: ...
    def close(self) -> None: ...


class Link(Protocol):
    """The topic; see `PulsarLink`."""

    @property
    def topic(self) -> object: ...
    @property
    def patience_s(self) -> float: ...
    def partitions(self) -> list[str]: ...
    def last(self, partition: str) -> MessageId | None: ...
    def holds(self, partition: str, id_: MessageId) -> bool: ...
    def since(self, partition: str, ms: int) -> MessageId | None: ...
    def reader(self, number: int, partition: str, after: MessageId | None) -> Reader: ...
    def close(self) -> None: ...


class PulsarPlanner:
    """One per query. Every method raises SinkError and PublishTimeout."""

    def __init__(self, link: Link, max_bytes: int, *, fail_on_loss: bool) -> None:
        self._link = link
        self._max_bytes = max_bytes
        self._fail_on_loss = fail_on_loss
        self._readers: dict[int, Reader] = {}
        self._read_to: dict[int, MessageId | None] = {}
        self._ahead: dict[int, list[Seen]] = {}
        self._newest: Offsets | None = None
        self._stop_at: dict[int, MessageId | None] | None = None
        self._names: list[str] = []
        self._asked = float("-inf")
        self._alone_since: float | None = None

    def begin(self, start: str) -> Offsets:
        """The offset of a new checkpoint; see `pulsar.start`."""
        if start == "earliest":
            return {}
        moment = start_ms(start)
        found = {number: self._behind(name, moment) for number, name in enumerate(self._partitions())}
        return {str(number): Place(after).offset() for number, after in found.items() if after is not None}

    def stop_at_present_end(self) -> None:
        """From now on nothing counts that is published later."""
        self._stop_at = {number: self._link.last(name) for number, name in enumerate(self._partitions())}

    def advance(self, start: Mapping[str, Any], most: int) -> Offsets:
        """The offset behind the next records: at most `most`, or with the one that reaches the bytes; `start` if there are none."""
        places = {number: place_of(start, number) for number in range(len(self._partitions()))}
        self._ahead = {number: [] for number in places}
        for number, place in places.items():
            self._go_to(number, place)
        left = _Left(most, self._max_bytes)
        deadline = time.monotonic() + self._link.patience_s
        while left.any and (open_ := [number for number in places if not self._at_end(number)]):
            before = left.records
            for number in open_:
                self._take(number, left)
            if before == left.records and not self._is_awaited(open_, deadline):
                break
        self._check_connections()
        moved = {number: Place(seen[-1].id, places[number].taken + len(seen)) for number, seen in self._ahead.items() if seen}
        self._newest = {**start, **{str(number): place.offset() for number, place in sorted(moved.items())}}
        return self._newest

    def end(self) -> Offsets | None:
        """The offset behind everything there is, as long as that was all read; how much lies beyond, only reading it could tell."""
        return None if any(reader.more() for reader in self._readers.values()) else self._newest

    def slices(self, start: Mapping[str, Any], end: Mapping[str, Any], tasks: int) -> Iterator[Plan]:
        """What each task reads between two offsets; several tasks where a partition has much."""
        for key in end:
            number, a, b = int(key), place_of(start, int(key)), place_of(end, int(key))
            if a == b or b.after is None:
                continue
            # Ids are smaller than before where the whole cluster was made anew.
            after = a.after if a.after is not None and a.after < b.after else None
            name, done = self._partitions()[number], a.taken
            for last, count in _cuts(self._ahead.get(number, []), a, b, tasks):
                yield Plan(number, name, after, last, count - done)
                after, done = last, count

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()

    def _partitions(self) -> list[str]:
        if time.monotonic() - self._asked > _PARTITIONS_EVERY_S:
            self._names = self._link.partitions()
            self._asked = time.monotonic()
        return self._names

    def _behind(self, name: str, moment: int | None) -> MessageId | None:
        """The last message that is not to be read."""
        first = None if moment is None else self._link.since(name, moment)
        if first is None:
            return self._link.last(name)
        # A moment leads to the beginning of an entry: all of the entry before it, should there be one, is left out.
        return MessageId(first.ledger, first.entry - 1, _LAST_IN_ENTRY if first.entry else -1)

    def _go_to(self, number: int, place: Place) -> None:
        reader = self._readers.get(number)
        if reader is not None and self._read_to[number] == place.after:
            return
        if reader is not None:
            reader.close()
        name = self._partitions()[number]
        after = self._resumed(name, place)
        self._readers[number] = self._link.reader(number, name, after)
        self._read_to[number] = place.after

    def _resumed(self, name: str, place: Place) -> MessageId | None:
        """Where reading goes on. The last message that was taken must still be there: if not, later ones may be gone as well."""
        if place.after is None or not place.taken or self._link.holds(name, place.after):
            return place.after
        if self._fail_on_loss:
            raise SinkError(
                f"{self._link.topic}: messages were deleted, perhaps before the job read them, or the topic was made anew; {DELETED}"
            )
        last = self._link.last(name)
        return place.after if last is None or last > place.after else None

    def _take(self, number: int, left: _Left) -> None:
        reader = self._readers[number]
        for _ in range(_TURN):
            if not left.any or self._at_end(number) or (found := reader.read(_LOOK_EVERY_S)) is None:
                return
            self._ahead[number].append(Seen(found.id, found.record.size))
            self._read_to[number] = found.id
            left.records -= 1
            left.bytes -= found.record.size

    def _check_connections(self) -> None:
        """Whoever waits for a topic that is gone would wait for ever, and say nothing."""
        if all(reader.connected for reader in self._readers.values()):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > self._link.patience_s:
            raise PublishTimeout(
                f"{self._link.topic}: no broker serves it any more; check that the brokers run and that the topic is there"
            )

    def _at_end(self, number: int) -> bool:
        if self._stop_at is None:
            return False
        at, end = self._readers[number].at, self._stop_at.get(number)
        return end is None or (at is not None and at >= end)

    def _is_awaited(self, numbers: list[int], deadline: float) -> bool:
        """Whether messages must come because they are known to be there."""
        if self._stop_at is None or any(self._ahead.values()):
            return False
        waiting = [number for number in numbers if self._readers[number].more()]
        if waiting and time.monotonic() > deadline:
            raise PublishTimeout(f"{self._link.topic}: Pulsar does not give what is there; check that its brokers and bookies run")
        return bool(waiting)


class _Left:
    """How much of a micro-batch is still free."""

    def __init__(self, records: int, size: int) -> None:
        self.records = records
        self.bytes = size

    @property
    def any(self) -> bool:
        return self.records > 0 and self.bytes > 0


def place_of(offsets: Mapping[str, Any], number: int) -> Place:
    """The place of one partition; the beginning where none is kept."""
    found = offsets.get(str(number))
    if found is None:
        return Place()
    ledger, entry, batch, count = found
    return Place(None if ledger < 0 else MessageId(ledger, entry, batch), count)


def _cuts(seen: list[Seen], start: Place, end: Place, tasks: int) -> Iterator[tuple[MessageId, int]]:
    """The last message of each slice and how many were taken up to it; each of at most `tasks` slices is worth a task."""
    assert end.after is not None
    if seen and seen[-1].id == end.after and len(seen) == end.taken - start.taken:
        slices = min(tasks, len(seen), sum(one.size for one in seen) // WORTH_A_TASK)
        for i in range(1, slices):
            upto = len(seen) * i // slices
            yield seen[upto - 1].id, start.taken + upto
    yield end.after, end.taken
