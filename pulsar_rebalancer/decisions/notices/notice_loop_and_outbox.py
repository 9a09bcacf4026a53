"""Follows rounds and outcomes, and delivers the notices that they cause: reads, decides, stores,
commits, delivers, one after the other.

What it must not forget is in one file that is replaced atomically: the positions on the topics,
what was decided from them, and the notices that are not delivered yet. A record and its notices are
stored together, and a notice is removed after its delivery. So a killed process loses no notice,
and may repeat only the one that it was delivering, with the same id.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pulsar_rebalancer.decisions.log import DecisionRecord, Kind, decode_decision
from pulsar_rebalancer.decisions.notices.notice_rules import (
    NoticeMemory,
    NoticeRules,
    after_records,
    after_silence,
)
from sinks.durable_files import Fsync, make_folder, write_durably
from sinks.notices.delivery import Delivery, Notice
from sinks.topics.open_topics import Consumer, Skipped, TopicRecord, readable
from sinks.wire.record_decoding import Position
from sinks.wire.signing_keys import SigningKey
from strategies.errors import SinkError, StateVersionError

_FILE, _LOCK, _VERSION = "notices.json", ".lock", 1
#: A place in a topic: its partition and offset.
Place = tuple[int, int]


_RECORDS, _BYTES = 500, 16 * 2**20


class Stored(msgspec.Struct, frozen=True):
    """The content of the file. `places`: topic → the newest processed record of each partition, of
    a file topic only of the newest segment.
    """

    v: int
    memory: NoticeMemory
    places: dict[str, list[Place]] = {}
    waiting: list[Notice] = []

    def has(self, position: Position) -> bool:
        """True if the record was processed."""
        topic, partition, offset = position
        known = self.places.get(topic, [])
        if _in_segments(topic):
            return known != [] and (partition, offset) <= known[0]
        return offset <= dict(known).get(partition, -1)

    def with_records(
        self, positions: Iterable[Position], memory: NoticeMemory, notices: Iterable[Notice]
    ) -> "Stored":
        """After these records, in their order, and with the notices that they caused."""
        places = dict(self.places)
        for topic, partition, offset in positions:
            known = {} if _in_segments(topic) else dict(places.get(topic, ()))
            places[topic] = sorted({**known, partition: offset}.items())
        return replace(self, memory=memory, places=places, waiting=[*self.waiting, *notices])


def _in_segments(topic: str) -> bool:
    """True if partitions are segments of a file topic, which are written one after the other."""
    return topic.startswith("file:")


class Outbox:
    """The file in its folder, which is locked until `close`. All methods raise SinkError."""

    def __init__(self, folder: Path, fsync: Fsync = os.fsync) -> None:
        """Creates the folder. `fsync`: flushes the file or folder of a file descriptor."""
        self._file, self._fsync = folder / _FILE, fsync
        try:
            make_folder(folder, fsync)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise SinkError(
                f"Another notifier uses {folder}: stop it, or give this one a folder of its own "
                "as notices.state."
            ) from error
        except OSError as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Releases the folder."""
        os.close(self._lock)

    def read(self, now_ms: int) -> Stored:
        """Reads what was written last. At the first start, which is now, a new file, which is on
        the disk before a record is read: a second start begins there. Raises StateVersionError.
        """
        try:
            stored = msgspec.json.decode(self._file.read_bytes(), type=Stored)
        except FileNotFoundError:
            stored = Stored(_VERSION, NoticeMemory(now_ms))
            self.write(stored)
        except OSError as error:
            raise self._unusable(error) from error
        except ValueError as error:
            raise SinkError(
                f"{self._file} is damaged ({error}); delete it to begin with the present state of "
                "the clusters."
            ) from error
        if stored.v != _VERSION:
            raise StateVersionError(
                f"{self._file} was written by another version (format {stored.v}, this one reads "
                f"{_VERSION}): use the version that wrote it, or delete the file."
            )
        return stored

    def write(self, stored: Stored) -> None:
        """Returns when it is on the disk."""
        text = msgspec.json.encode(stored).decode()
        try:
            write_durably(self._file, text, self._file.with_suffix(".part").name, self._fsync)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> SinkError:
        return SinkError(
            f"{self._file} cannot be used ({error.strerror}); make room, or name a folder as "
            "notices.state that this user may write."
        )


@dataclass(frozen=True, slots=True)
class NoticeSource:
    """A topic that is followed. `kind`: of its records; `key`: those without its signature are
    skipped; None = signatures are not checked.
    """

    kind: Kind
    consumer: Consumer
    key: SigningKey | None = None


class Notifier:
    """One thread uses it. All methods raise SinkError."""

    def __init__(
        self,
        sources: Sequence[NoticeSource],
        outbox: Outbox,
        delivery: Delivery,
        rules: NoticeRules,
        *,
        clock_ms: Callable[[], int],
        on_skipped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_skipped`: gets a line about records that are no rounds or outcomes."""
        self._sources, self._outbox, self._delivery = sources, outbox, delivery
        self._rules, self._clock_ms, self._on_skipped = rules, clock_ms, on_skipped
        self._stored = outbox.read(clock_ms())

    def step(self, timeout_s: float) -> int:
        """Processes the next records and delivers what they cause; the number of records. Waits for
        those of the first source at most `timeout_s`. Without records, looks for silent clusters.
        """
        self._deliver()
        polled = list[tuple[NoticeSource, Sequence[TopicRecord]]]()
        for source in self._sources:
            polled.append((source, source.consumer.poll(_RECORDS, timeout_s, _BYTES)))
            timeout_s = 0
        observed = [one for source, records in polled for one in self._read(source, records)]
        memory, notices = after_records(self._stored.memory, observed, self._rules)
        positions = [record.position for _, records in polled for record in records]
        if not positions:
            memory, notices = after_silence(memory, self._clock_ms(), self._rules)
        if positions or notices:
            self._store(self._stored.with_records(positions, memory, notices))
        for source, records in polled:
            if records:
                source.consumer.commit(records[-1])
        self._deliver()
        return len(positions)

    @property
    def waiting(self) -> int:
        """Number of notices that are decided and not delivered."""
        return len(self._stored.waiting)

    def _read(
        self, source: NoticeSource, records: Sequence[TopicRecord]
    ) -> Iterator[DecisionRecord]:
        """The records that were not processed before a restart."""
        topic = records[0].position.topic if records else ""
        skipped = Skipped(topic, source.kind.removesuffix("s"))
        new = (record for record in records if not self._stored.has(record.position))
        decode = partial(decode_decision, source.kind, key=source.key)
        for _, one in readable(new, decode, skipped):
            yield one
        for line in skipped.lines():
            self._on_skipped(line)

    def _store(self, stored: Stored) -> None:
        self._outbox.write(stored)
        self._stored = stored

    def _deliver(self) -> None:
        """Delivers in order; stops if the process is to stop."""
        while waiting := self._stored.waiting:
            if self._delivery.deliver(waiting[0]) == "stopped":
                return
            self._store(replace(self._stored, waiting=waiting[1:]))
