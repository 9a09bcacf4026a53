"""The executor: takes commands off the control topic in order, has each judged and carried out, and publishes what became of it.

For each record exactly one outcome, published before the record's position is committed. What must survive a death in between stands in
the journal: see there for the three states of a command.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from sinks.executor.applier import Applier, Effect
from sinks.executor.journal import Entry, Journal, Received
from sinks.executor.rate_limiter import Pace
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.topics.access import Consumer, Publisher, TopicRecord
from sinks.topics.epochs import epochs_in
from sinks.topics.readable import check_read
from sinks.wire.codec import cluster_of, decode_outcome, read_command, to_command
from sinks.wire.contracts.commands import CommandRecord
from sinks.wire.encoding import encode_outcome, encode_outcome_telemetry, encode_rejected
from sinks.wire.limits import DEFAULT_LIMITS, WireLimits
from sinks.wire.origin import Origin
from sinks.wire.signing import SigningKey
from strategies.admission import (
    AdmissionRules,
    Objection,
    Scene,
    Signature,
    Standing,
    frozen_objection,
    isolation_of,
    may_be_applied,
    may_be_considered,
)
from strategies.errors import AdminError, NotFound, NotOwned, RebalancerError, SinkError, Unauthorized, WireError
from strategies.model import Command, Outcome, OutcomeStatus

#: How long a verdict is remembered after its command has expired. From then on a repetition is refused because it is too late.
_REMEMBER_MS = 3_600_000
#: The same at a start, where no command has told yet whether this machine's clock is right.
_REMEMBER_AT_START_MS = 7 * 86_400_000
_POLL_S = 0.5
#: Signatures of commands and rounds whose times and epochs count.
_BELIEVED: frozenset[Signature] = frozenset({"signed", "unchecked"})
#: Characters of an outcome's reason, which may quote what brokers and policies say.
_LONGEST_REASON = 2_000
#: How often rounds are read while commands wait for their turn.
_LEARN_EVERY_S = 0.5
#: So much of the rounds topic is held at a time (bytes).
_ROUNDS_BYTES = 8 * 2**20


@dataclass(frozen=True)
class ExecutorTopics:
    """The control topic and the rounds to read, and where outcomes and unreadable records go."""

    commands: Consumer
    rounds: Consumer
    outcomes: Publisher
    telemetry: Publisher
    rejected: Publisher

    def close(self) -> None:
        """Closes all five."""
        for topic in (self.commands, self.rounds, self.outcomes, self.telemetry, self.rejected):
            topic.close()


@dataclass(frozen=True)
class Duty:
    """What an executor was told: the cluster it serves, the rules, whether it may act at all, the key it demands, where its brake is."""

    cluster: str
    rules: AdmissionRules = AdmissionRules()
    apply: bool = False
    key: SigningKey | None = None
    pause_file: Path | None = None
    at_once: int = 4
    limits: WireLimits = DEFAULT_LIMITS


class Done(NamedTuple):
    """One outcome, with the command it answers."""

    command: Command
    outcome: Outcome


#: Work may be done beside other work; what it returns is called in the order of the records.
Finish = Callable[[], None]
Work = Callable[[], Finish]


class Stopped(RebalancerError):
    """The executor is to end before this command was begun; it comes again."""


class Executor:
    """One cluster, one journal, one thread that calls `recover` and then `step` again and again."""

    def __init__(
        self,
        duty: Duty,
        topics: ExecutorTopics,
        *,
        journal: Journal,
        admin: PulsarAdmin,
        applier: Applier,
        pace: Pace,
        frozen: Callable[[Sequence[str]], str] = lambda _: "",
        tell: Callable[[Done], None] = lambda _: None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`frozen`: a sentence about those of the live brokers that are frozen, empty when none is. `tell` hears of every outcome after it
        was published. `clock_ms`: ms since the epoch."""
        self._duty = duty
        self._topics = topics
        self._journal = journal
        self._admin = admin
        self._applier = applier
        self._pace = pace
        self._frozen = frozen
        self._tell = tell
        self._clock_ms = clock_ms
        self._waiting: deque[TopicRecord] = deque()
        self._issued_ms = 0

    def recover(self) -> None:
        """What the last process left: looks after open commands, publishes decided ones. Raises SinkError, Unauthorized."""
        for entry in self._journal.unfinished():
            self._finish(entry.received, read_command(entry.received.record), entry, self._signature(entry.received.record))
        self._journal.forget(self._clock_ms() - _REMEMBER_AT_START_MS)

    def step(self, timeout_s: float = _POLL_S) -> int:
        """Works off the next few records; how many. Raises SinkError, Unauthorized, Stopped; then what was not finished comes again."""
        self._learn_epochs()
        wave = self._next_wave(timeout_s)
        if not wave:
            return 0
        works = [self._work(record) for record in wave]
        with ThreadPoolExecutor(self._duty.at_once, thread_name_prefix="apply") as pool:
            finishes = [pool.submit(work) for work in works]
            while wait(finishes, _LEARN_EVERY_S).not_done:
                # What waits for its turn is judged by the newest epoch; a topic that cannot be read stops the next step, not this one.
                with suppress(SinkError):
                    self._learn_epochs()
        for record, finish in zip(wave, finishes, strict=True):
            finish.result()()
            self._topics.commands.commit(record)
        self._forget()
        return len(wave)

    def _work(self, record: TopicRecord) -> Work:
        """What is to be done about a record, judged in its turn."""
        try:
            command = self._read(record)
        except WireError as error:
            complaint = error
            return lambda: lambda: self._reject(record, complaint)
        if command is None:
            return lambda: _nothing
        received, signature = Received(command.id, record.position, record.value), self._signature(record.value)
        same, earlier = self._journal.earlier(received)
        if same is not None:
            entry = same
            return lambda: _nothing if entry.published else lambda: self._finish(received, command, entry, signature)
        standing = self._standing(command, signature, earlier)

        def work() -> Finish:
            outcome = self._handle(received, command, standing)
            return lambda: self._publish(received, command, outcome, signature)

        return work

    def _finish(self, received: Received, command: CommandRecord, entry: Entry, signature: Signature) -> None:
        """A command that was left half done."""
        outcome = self._resume(entry, command, signature) if entry.outcome is None else decode_outcome(entry.outcome)
        self._publish(received, command, outcome, signature)

    def _read(self, record: TopicRecord) -> CommandRecord | None:
        """The command; None for one of another cluster, which another executor serves."""
        check_read(record)
        if record.size > self._duty.limits.max_record_bytes:
            raise WireError("too-large", f"The record has {record.size} bytes, more than wire.max_record_bytes; no command is that large.")
        command = read_command(record.value)
        return command if command.cluster == self._duty.cluster else None

    def _signature(self, record: bytes) -> Signature:
        return "unchecked" if self._duty.key is None else self._duty.key.check(record)

    def _standing(self, command: CommandRecord, signature: Signature, earlier: OutcomeStatus | None) -> Callable[[], Standing]:
        """What is known now; asked again right before something is done. Only a command that may be believed raises the epoch."""
        if signature in _BELIEVED:
            self._journal.see_epoch(command.cluster, command.epoch)
            self._issued_ms = max(self._issued_ms, min(command.issued_at_ms, self._clock_ms()))
        newest, pause = self._journal.newest_epoch, self._duty.pause_file
        return lambda: Standing(self._clock_ms(), signature, newest(command.cluster), earlier, pause is not None and pause.exists())

    def _handle(self, received: Received, command: CommandRecord, standing: Callable[[], Standing]) -> Outcome:
        plain = to_command(command)
        objection = may_be_considered(plain, standing(), self._duty.rules)
        if objection is not None:
            return self._decided(received, command, _effect(objection, None), None, 0)
        try:
            scene = self._look(plain)
        except Unauthorized:
            raise
        except NotOwned as error:
            return self._decided(received, command, Effect("refused", f"not-owned: {error}", None), None, 0)
        except AdminError as error:
            return self._decided(received, command, Effect("failed", f"cluster-silent: {error}", None), None, 0)
        objection = may_be_applied(plain, scene)
        if objection is not None:
            return self._decided(received, command, _effect(objection, scene.owner), scene.owner, 0)
        if not self._duty.apply:
            return self._decided(received, command, Effect("dry-run", _intention(plain), scene.owner), scene.owner, 0)
        if not self._pace.take():
            raise Stopped("The executor is stopping; the command is left for the next start.")

        def objection_now() -> Objection | None:
            return may_be_considered(plain, standing(), self._duty.rules) or frozen_objection(self._frozen(scene.brokers))

        objection = objection_now()
        if objection is not None:
            return self._decided(received, command, _effect(objection, scene.owner), scene.owner, 0)
        return self._apply(received, command, scene.owner, lambda: objection_now() is None)

    def _apply(self, received: Received, command: CommandRecord, owner: str | None, may_go_on: Callable[[], bool]) -> Outcome:
        begun = time.monotonic()
        self._journal.intend(received, owner, self._clock_ms())
        effect = self._applier.apply(command, may_go_on)
        return self._decided(received, command, effect, owner, int((time.monotonic() - begun) * 1000))

    def _resume(self, entry: Entry, command: CommandRecord, signature: Signature) -> Outcome:
        """A command that was being carried out when the last process died: the cluster is asked before anything is done."""
        received, effect = entry.received, self._applier.after_interruption(command)
        if effect is not None:
            return self._decided(received, command, effect, entry.owner, 0)
        return self._handle(received, command, self._standing(command, signature, None))

    def _look(self, command: Command) -> Scene:
        brokers = self._admin.brokers()
        if frozen := self._frozen(brokers):
            return Scene(brokers, None, frozen=frozen)
        owner = self._admin.owner(command.bundle, [command.source, *([command.destination] if command.destination else [])], brokers)
        exists = owner is not None or self._exists(command.bundle)
        return Scene(brokers, owner, isolation_of(self._admin.isolation_policies()), exists)

    def _exists(self, bundle: str) -> bool:
        namespace, _, range_ = bundle.rpartition("/")
        try:
            return range_ in self._admin.ranges(namespace)
        except NotFound:
            return False

    def _decided(self, received: Received, command: CommandRecord, effect: Effect, before: str | None, took_ms: int) -> Outcome:
        now_ms = self._clock_ms()
        reason = effect.reason and effect.reason[:_LONGEST_REASON]
        outcome = Outcome(command.id, command.cluster, command.bundle, effect.status, reason, before, effect.owner_after, took_ms, now_ms)
        self._journal.decide(received, effect.status, encode_outcome(outcome), now_ms)
        return outcome

    def _publish(self, received: Received, command: CommandRecord, outcome: Outcome, signature: Signature) -> None:
        self._topics.outcomes.publish(outcome.cluster, encode_outcome(outcome))
        self._topics.telemetry.publish(outcome.cluster, encode_outcome_telemetry(outcome))
        self._topics.outcomes.flush()
        self._topics.telemetry.flush()
        self._journal.publish(received, command.expires_at_ms if signature in _BELIEVED else 0)
        self._tell(Done(to_command(command), outcome))

    def _forget(self) -> None:
        """Drops verdicts on commands that expired long ago, both by this machine's clock and by the times of believed commands.

        A clock that is ahead by mistake does not make a command unknown that may still be carried out.
        """
        self._journal.forget(min(self._clock_ms(), self._issued_ms) - _REMEMBER_MS)

    def _reject(self, record: TopicRecord, error: WireError) -> None:
        cluster = cluster_of(record.value)
        self._topics.rejected.publish(cluster, encode_rejected(error, Origin(record.position, record.value, record.size), cluster))
        self._topics.rejected.flush()

    def _learn_epochs(self) -> None:
        """A new job announces its epoch with its first round, before it has any command to give. With a key, only a signed one counts."""
        while records := self._topics.rounds.poll(1_000, 0, _ROUNDS_BYTES):
            newest: dict[str, int] = {}
            for told in epochs_in(record.value for record in records if self._signature(record.value) in _BELIEVED):
                newest[told.cluster] = max(told.epoch, newest.get(told.cluster, 0))
            for cluster, epoch in newest.items():
                self._journal.see_epoch(cluster, epoch)
            self._topics.rounds.commit(records[-1])

    def _next_wave(self, timeout_s: float) -> list[TopicRecord]:
        """The next records, as many as may be worked on at once, none of them about a bundle that another one is about."""
        if len(self._waiting) < self._duty.at_once:
            self._waiting.extend(self._topics.commands.poll(self._duty.at_once - len(self._waiting), 0 if self._waiting else timeout_s))
        wave: list[TopicRecord] = []
        subjects: set[str] = set()
        while self._waiting and (subject := _bundle_of(self._waiting[0].value)) not in subjects:
            wave.append(self._waiting.popleft())
            subjects |= {subject} if subject else set()
        return wave


def _nothing() -> None:
    """There is nothing to finish."""


def _effect(objection: Objection, owner: str | None) -> Effect:
    return Effect(objection.status, str(objection), owner)


def _intention(command: Command) -> str:
    where = "" if command.destination is None else f" to {command.destination}"
    return f"dry-run: would {command.action} {command.bundle} from {command.source}{where}"


class _BundleOnly(msgspec.Struct):
    bundle: str = ""


def _bundle_of(value: bytes) -> str:
    try:
        return msgspec.json.decode(value, type=_BundleOnly).bundle
    except (ValueError, RecursionError):
        return ""
