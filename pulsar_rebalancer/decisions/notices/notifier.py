"""Follows rounds and outcomes, and delivers the notices that they cause: reads, decides, stores,
commits, delivers, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from pulsar_rebalancer.decisions.log import DecisionRecord, Kind, decode_decision
from pulsar_rebalancer.decisions.notices.decide import (
    NoticeRules,
    after_records,
    after_silence,
)
from pulsar_rebalancer.decisions.notices.outbox import Outbox, Stored
from sinks.notices.delivery import Delivery
from sinks.topics.access import Consumer, TopicRecord
from sinks.topics.readable import Skipped, readable
from sinks.wire.signing import SigningKey

_RECORDS, _BYTES = 500, 16 * 2**20


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
