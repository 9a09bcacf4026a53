"""Finds the end of the next micro-batch of a Pulsar topic by reading ahead: only a message itself
shows its id and size.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sinks.durable_files import write_durably
from sinks.topics.kafka.settings import start_ms
from sinks.topics.pulsar.partition import MessageId, PartitionReader, PulsarLink
from strategies.errors import PublishTimeout, SinkError
from streaming.sources.records import WORTH_A_TASK

#: An offset in the checkpoint: partition → ledger, entry, index in the batch, and the number of
#: records taken so far.
Offsets = dict[str, list[int]]
DELETED = (
    "raise the topic's retention; to continue without them, set "
    "job.fail_on_data_loss=false for one start (which leaves a gap), or "
    "name a new job.checkpoint"
)
#: Number of records that a partition gives before the next one has its turn.
_TURN = 100
_LOOK_EVERY_S = 0.001
#: Larger than any index in a batch: Pulsar's protocol has 31 bits for it.
_LAST_IN_ENTRY = 2**31 - 1
#: Interval for checking a topic for new partitions.
_PARTITIONS_EVERY_S = 30.0


class PulsarPlace(NamedTuple):
    """The place at which reading a partition continues."""

    #: The last message before it; None for the oldest message.
    after: MessageId | None = None
    #: Number of records taken before.
    taken: int = 0

    def offset(self) -> list[int]:
        """Returns the place as stored in the checkpoint."""
        return [*(self.after or (-1, -1, -1)), self.taken]


class ReadPlan(NamedTuple):
    """The part of one task: `records` messages of partition `number` with the name `name`, after
    `after` up to and including `end`.
    """

    number: int
    name: str
    after: MessageId | None
    end: MessageId
    records: int


class SeenMessage(NamedTuple):
    """A message that was read ahead."""

    id: MessageId
    size: int


class PulsarPlanner:
    """Plans the micro-batches of one query. All methods raise SinkError and PublishTimeout."""

    def __init__(
        self,
        link: PulsarLink,
        max_bytes: int,
        *,
        fail_on_loss: bool,
        reader: type[PartitionReader] = PartitionReader,
    ) -> None:
        self._link = link
        self._reader = reader
        self._max_bytes = max_bytes
        self._fail_on_loss = fail_on_loss
        self._readers: dict[int, PartitionReader] = {}
        self._read_to: dict[int, MessageId | None] = {}
        self._ahead: dict[int, list[SeenMessage]] = {}
        self._newest: Offsets | None = None
        self._stop_at: dict[int, MessageId | None] | None = None
        self._names: list[str] = []
        self._asked = float("-inf")
        self._alone_since: float | None = None

    def begin(self, start: str) -> Offsets:
        """Returns the offset of a new checkpoint; see `pulsar.start`."""
        if start == "earliest":
            return {}
        since_ms = start_ms(start)
        places = {
            number: self._start_after(name, since_ms)
            for number, name in enumerate(self._partitions())
        }
        return {
            str(number): PulsarPlace(after).offset()
            for number, after in places.items()
            if after is not None
        }

    def stop_at_present_end(self) -> None:
        """Ignores messages published from now on."""
        self._stop_at = {
            number: self._link.last(name) for number, name in enumerate(self._partitions())
        }

    def advance(self, start: Mapping[str, Any], most: int) -> Offsets:
        """Returns the offset after the next records: at most `most`, or up to the one that reaches
        `max_bytes`; `start` if there are none.
        """
        places = {number: place_of(start, number) for number in range(len(self._partitions()))}
        self._ahead = {number: [] for number in places}
        for number, place in places.items():
            self._seek(number, place)
        capacity = _Capacity(most, self._max_bytes)
        deadline = time.monotonic() + self._link.timeout_s
        while capacity.any and (open_ := [number for number in places if not self._at_end(number)]):
            before = capacity.records
            for number in open_:
                self._read_ahead(number, capacity)
            if before == capacity.records and not self._must_wait(open_, deadline):
                break
        self._check_connections()
        moved = {
            number: PulsarPlace(seen[-1].id, places[number].taken + len(seen))
            for number, seen in self._ahead.items()
            if seen
        }
        self._newest = {
            **start,
            **{str(number): place.offset() for number, place in sorted(moved.items())},
        }
        return self._newest

    def end(self) -> Offsets | None:
        """Returns the offset after the newest message if all were read, otherwise None: the number
        of unread messages is unknown.
        """
        return None if any(reader.more() for reader in self._readers.values()) else self._newest

    def slices(
        self, start: Mapping[str, Any], end: Mapping[str, Any], tasks: int
    ) -> Iterator[ReadPlan]:
        """Yields the part of each task between two offsets; several tasks for a partition with many
        records.
        """
        for key in end:
            number, a, b = int(key), place_of(start, int(key)), place_of(end, int(key))
            if a == b or b.after is None:
                continue
            # Ids restart at lower numbers when the whole cluster was recreated.
            after = a.after if a.after is not None and a.after < b.after else None
            name, done = self._partitions()[number], a.taken
            for last, count in _cuts(self._ahead.get(number, []), a, b, tasks):
                yield ReadPlan(number, name, after, last, count - done)
                after, done = last, count

    def close(self) -> None:
        """Closes the connection."""
        self._link.close()

    def _partitions(self) -> list[str]:
        if time.monotonic() - self._asked > _PARTITIONS_EVERY_S:
            self._names = self._link.partitions()
            self._asked = time.monotonic()
        return self._names

    def _start_after(self, name: str, since_ms: int | None) -> MessageId | None:
        """Returns the id after which a new checkpoint starts."""
        last = self._link.last(name)  # asked first: what arrives meanwhile is read
        first = None if since_ms is None else self._link.since(name, since_ms)
        if first is None:
            return last
        # A time leads to the beginning of an entry: everything before that entry is skipped.
        return MessageId(first.ledger, first.entry - 1, _LAST_IN_ENTRY if first.entry else -1)

    def _seek(self, number: int, place: PulsarPlace) -> None:
        reader = self._readers.get(number)
        if reader is not None and self._read_to[number] == place.after:
            return
        if reader is not None:
            reader.close()
        name = self._partitions()[number]
        after = self._resumed(name, place)
        self._readers[number] = self._reader(self._link, number, name, after)
        self._read_to[number] = place.after

    def _resumed(self, name: str, place: PulsarPlace) -> MessageId | None:
        """Returns the message after which reading continues. The last message taken must still
        exist, because otherwise later ones may be deleted as well.
        """
        if place.after is None or not place.taken or self._link.holds(name, place.after):
            return place.after
        if self._fail_on_loss:
            raise SinkError(
                f"{self._link.topic}: messages were deleted, perhaps before the job read "
                f"them, or the topic was recreated; {DELETED}"
            )
        last = self._link.last(name)
        return place.after if last is None or last > place.after else None

    def _read_ahead(self, number: int, capacity: "_Capacity") -> None:
        reader = self._readers[number]
        for _ in range(_TURN):
            if (
                not capacity.any
                or self._at_end(number)
                or (message := reader.read(_LOOK_EVERY_S)) is None
            ):
                return
            self._ahead[number].append(SeenMessage(message.id, message.record.size))
            self._read_to[number] = message.id
            capacity.records -= 1
            capacity.bytes -= message.record.size

    def _check_connections(self) -> None:
        """Raises PublishTimeout if a partition has had no broker for too long: the client would
        wait for a deleted topic for ever.
        """
        if all(reader.connected for reader in self._readers.values()):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > self._link.timeout_s:
            raise PublishTimeout(
                f"{self._link.topic}: no broker serves it any more; check that the brokers "
                "run and that the topic exists"
            )

    def _at_end(self, number: int) -> bool:
        if self._stop_at is None:
            return False
        at, end = self._readers[number].at, self._stop_at.get(number)
        return end is None or (at is not None and at >= end)

    def _must_wait(self, numbers: list[int], deadline: float) -> bool:
        """True if existing messages have not arrived; raises PublishTimeout after `deadline`."""
        if self._stop_at is None or any(self._ahead.values()):
            return False
        waiting = [number for number in numbers if self._readers[number].more()]
        if waiting and time.monotonic() > deadline:
            raise PublishTimeout(
                f"{self._link.topic}: Pulsar does not deliver existing messages; check that "
                "its brokers and bookies run"
            )
        return bool(waiting)


class _Capacity:
    """The remaining capacity of a micro-batch."""

    def __init__(self, records: int, size: int) -> None:
        self.records = records
        self.bytes = size

    @property
    def any(self) -> bool:
        return self.records > 0 and self.bytes > 0


def kept_begin(file: Path, begin: Callable[[], Offsets]) -> Offsets:
    """Returns the offset of a new checkpoint, decided once and kept in a file: Spark does not store
    it, and asks again when it repeats the first micro-batch, whose end is known already.
    """
    if not file.exists():
        write_durably(file, json.dumps(begin()), f"{file.name}.draft")
    offsets: Offsets = json.loads(file.read_bytes())
    return offsets


def place_of(offsets: Mapping[str, Any], number: int) -> PulsarPlace:
    """Returns the place of one partition; the beginning if none is stored."""
    place = offsets.get(str(number))
    if place is None:
        return PulsarPlace()
    ledger, entry, batch, count = place
    return PulsarPlace(None if ledger < 0 else MessageId(ledger, entry, batch), count)


def _cuts(
    seen: list[SeenMessage], start: PulsarPlace, end: PulsarPlace, tasks: int
) -> Iterator[tuple[MessageId, int]]:
    """Yields the last message of each slice, and the number of records taken up to it; each of at
    most `tasks` slices is worth a task.
    """
    assert end.after is not None
    if seen and seen[-1].id == end.after and len(seen) == end.taken - start.taken:
        slices = min(tasks, len(seen), sum(message.size for message in seen) // WORTH_A_TASK)
        for i in range(1, slices):
            upto = len(seen) * i // slices
            yield seen[upto - 1].id, start.taken + upto
    yield end.after, end.taken
