"""Follows rounds and outcomes, and delivers the notices that they cause: reads, decides, stores,
commits, delivers, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from pulsar_rebalancer.decisions.notices.decide import (
    Decided,
    NoticeMemory,
    NoticeRules,
    PublishedCommand,
    after_command,
    after_outcome,
    after_round,
    after_silence,
)
from sinks.notices.delivery import Delivery
from sinks.notices.notice import Notice
from sinks.notices.outbox import Outbox, Stored, new_outbox
from sinks.topics.access import Consumer, TopicRecord
from sinks.topics.readable import Skipped, readable
from sinks.wire.codec import decode_command, decode_outcome, decode_round
from sinks.wire.command_digest import command_digest
from sinks.wire.position import Position
from sinks.wire.signing import SigningKey
from strategies.cluster.model import Outcome, Round
from strategies.errors import WireError

_RECORDS, _BYTES = 500, 16 * 2**20
Observed = Round | PublishedCommand | Outcome


@dataclass(frozen=True, slots=True)
class NoticeSources:
    """The topics that are followed. `commands`: None if no notices are wanted about plans. `key`:
    rounds and commands without its signature are skipped; None = the signatures are not checked.
    """

    rounds: Consumer
    outcomes: Consumer
    commands: Consumer | None = None
    key: SigningKey | None = None


class _Polled(NamedTuple):
    """Records of a topic, and how they are read."""

    kind: str
    consumer: Consumer
    decode: Callable[[bytes], Observed]
    records: Sequence[TopicRecord]


class Notifier:
    """One thread uses it. All methods raise SinkError."""

    def __init__(
        self,
        sources: NoticeSources,
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
        self._stored = outbox.read() or self._first()
        self._memory = msgspec.json.decode(self._stored.memory, type=NoticeMemory)

    def step(self, timeout_s: float) -> int:
        """Processes the next records and delivers what they cause; the number of records. Waits for
        them at most `timeout_s`. Without records, looks for silent clusters.
        """
        self._deliver()
        polled = list(self._polled(timeout_s))
        observed = [
            one for part in polled for one in self._read(part.records, part.decode, part.kind)
        ]
        memory, notices = decided(self._memory, observed, self._rules)
        records = [record for part in polled for record in part.records]
        if not records:
            memory, notices = after_silence(memory, self._clock_ms(), self._rules)
        if records or notices:
            self._store(memory, notices, [record.position for record in records])
        for part in polled:
            if part.records:
                part.consumer.commit(part.records[-1])
        self._deliver()
        return len(records)

    @property
    def waiting(self) -> int:
        """Number of notices that are decided and not delivered."""
        return len(self._stored.waiting)

    def _polled(self, timeout_s: float) -> Iterator[_Polled]:
        sources = self._sources
        rounds = sources.rounds.poll(_RECORDS, timeout_s, _BYTES)
        yield _Polled("round", sources.rounds, self._round, rounds)
        if sources.commands is not None:
            commands = sources.commands.poll(_RECORDS, 0, _BYTES)
            yield _Polled("command", sources.commands, self._command, commands)
        outcomes = sources.outcomes.poll(_RECORDS, 0, _BYTES)
        yield _Polled("outcome", sources.outcomes, decode_outcome, outcomes)

    def _first(self) -> Stored:
        """The first start is on the disk before a record is read: a second one begins there."""
        stored = new_outbox(msgspec.json.encode(NoticeMemory(self._clock_ms())))
        self._outbox.write(stored)
        return stored

    def _read(
        self,
        records: Sequence[TopicRecord],
        decode: Callable[[bytes], Observed],
        kind: str,
    ) -> Iterator[Observed]:
        """The records that were not processed before a restart."""
        skipped = Skipped(records[0].position.topic if records else "", kind)
        new = (record for record in records if not self._stored.has(record.position))
        for _, one in readable(new, decode, skipped):
            yield one
        for line in skipped.lines():
            self._on_skipped(line)

    def _round(self, value: bytes) -> Round:
        self._check_signature(value)
        return decode_round(value)

    def _command(self, value: bytes) -> PublishedCommand:
        self._check_signature(value)
        command = decode_command(value)
        digest = "" if command.action == "throttle" else command_digest(value)
        return PublishedCommand(command.cluster, command.id, command.issued_at_ms, digest)

    def _check_signature(self, value: bytes) -> None:
        key = self._sources.key
        if key is not None and (verdict := key.check(value)) != "signed":
            raise WireError(verdict, "The record is not signed with the key in signing.key_file.")

    def _store(
        self, memory: NoticeMemory, notices: Iterable[Notice], positions: Iterable[Position]
    ) -> None:
        stored = self._stored.with_records(positions, msgspec.json.encode(memory), notices)
        self._outbox.write(stored)
        self._stored, self._memory = stored, memory

    def _deliver(self) -> None:
        """Delivers in order; stops if the process is to stop."""
        while self._stored.waiting:
            if self._delivery.deliver(self._stored.waiting[0]) == "stopped":
                return
            rest = self._stored.delivered()
            self._outbox.write(rest)
            self._stored = rest


def decided(memory: NoticeMemory, observed: Iterable[Observed], rules: NoticeRules) -> Decided:
    """The memory after rounds and outcomes, and the notices in their order."""
    notices = list[Notice]()
    for one in observed:
        memory, found = _after(memory, one, rules)
        notices += found
    return memory, notices


def _after(memory: NoticeMemory, one: Observed, rules: NoticeRules) -> Decided:
    match one:
        case Round():
            return after_round(memory, one, rules)
        case PublishedCommand():
            return after_command(memory, one, rules)
        case Outcome():
            return after_outcome(memory, one, rules)
