"""Reads the topics of a live page, each in a thread of its own, and keeps the newest snapshot.

A topic that cannot be read is opened again and again; the others go on, and the snapshot says which
one is missing, and why.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec

from pulsar_rebalancer.decisions.live.snapshot_fold import LiveFold, LiveSnapshot, TopicHealth
from pulsar_rebalancer.decisions.log import decode_decision, usable_key
from pulsar_rebalancer.decisions.read_status import TelemetryHead
from sinks.topics.open_topics import Reader, TopicRecord, check_read, open_reader
from sinks.topics.topic_settings import Connections, TopicUri
from sinks.wire.names_and_times import is_cluster
from sinks.wire.raw_broker_reports import SourceSettings
from sinks.wire.record_decoding import decode_rejected
from sinks.wire.signing_keys import signing_key
from strategies.errors import RebalancerError, WireError

#: Records published within this time are read; of other topics, those of a day.
_PAST_MS = {"telemetry": 600_000, "rejected": 600_000}
#: Pause (s) after a read that brought nothing, between two snapshots, and between two looks at what
#: changes with time only.
_IDLE_S, _SNAPSHOT_S, _TICK_S = 0.3, 0.5, 5.0
_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 30.0
_TELEMETRY = msgspec.json.Decoder(TelemetryHead)


class LiveTopics:
    """The newest snapshot, and the threads that make it."""

    def __init__(
        self,
        connections: Connections,
        now_ms: Callable[[], int],
        *,
        paused: Callable[[], bool | None] = lambda: None,
        starting: Callable[[], str] = lambda: "",
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`now_ms`: the time since the epoch; `paused`: whether the pause file exists; `starting`:
        the newest line of a job that starts; `log`: gets one line when a topic is lost or found
        again.
        """
        self._connections, self._now_ms = connections, now_ms
        self._paused, self._starting, self._log = paused, starting, log
        self._fold = LiveFold()
        #: Signatures of approvals are checked by executors.
        self._keys = {
            "commands": usable_key(
                connections.signing,
                signing_key,
                lambda why: log(f"signatures of commands are not checked: {why}"),
            )
        }
        self._lock = threading.Lock()
        self._stop, self._dirty = threading.Event(), threading.Event()
        self._skipped = 0
        self._health = {
            name: TopicHealth(name, str(topic)) for name, topic in connections.topics.named()
        }
        #: The newest one.
        self.snapshot = LiveSnapshot(topics=tuple(self._health.values()))

    @contextmanager
    def running(self, on_turn: Callable[[LiveSnapshot], None] = lambda _: None) -> Iterator[None]:
        """Follows the topics during the block. `on_turn`: called with each snapshot, and every few
        seconds without a new one.
        """
        threads = [
            threading.Thread(target=self._follow, args=(name, topic), name=name, daemon=True)
            for name, topic in self._connections.topics.named()
        ]
        threads.append(
            threading.Thread(target=self._keep, args=(on_turn,), name="snapshots", daemon=True)
        )
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._dirty.set()
            for thread in threads:
                thread.join(2.0)

    def _follow(self, name: str, topic: TopicUri) -> None:
        pause_s = _FIRST_RETRY_S
        while not self._stop.is_set():
            try:
                reader = self._opened(name, topic)
                try:
                    pause_s = _FIRST_RETRY_S
                    self._read(name, reader)
                finally:
                    with suppress(RebalancerError):
                        reader.close()
            # Client libraries raise errors that no module of ours expects.
            except Exception as error:
                self._lost(name, error)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, _LAST_RETRY_S)

    def _opened(self, name: str, topic: TopicUri) -> Reader:
        given = self._connections
        return open_reader(
            topic,
            given.access,
            follow=True,
            limits=given.wire,
            source=given.source if name == "telemetry" else SourceSettings(),
            since_ms=max(0, self._now_ms() - _PAST_MS.get(name, 86_400_000)),
        )

    def _read(self, name: str, reader: Reader) -> None:
        while not self._stop.is_set():
            records = reader.read()
            self._found(name, caught_up=not records)
            if records:
                self._add(name, records)
            else:
                self._stop.wait(_IDLE_S)

    def _add(self, name: str, records: Sequence[TopicRecord]) -> None:
        for record in records:
            with self._lock:
                try:
                    check_read(record)
                    self._add_record(name, record.value)
                except (WireError, ValueError, RecursionError):
                    self._skipped += 1
        self._note(name, records=self._health[name].records + len(records))

    def _add_record(self, name: str, value: bytes) -> None:
        match name:
            case "telemetry":
                head = _TELEMETRY.decode(value)
                if is_cluster(head.cluster):
                    self._fold.add_telemetry(head)
            case "rejected":
                rejected = decode_rejected(value)
                self._fold.add_rejected(rejected.cluster or "", rejected.code)
            case _:
                self._fold.add(decode_decision(name, value, self._keys.get(name)))

    def _found(self, name: str, *, caught_up: bool) -> None:
        health = self._health[name]
        if health.error:
            self._log(f"topics.{name} is read again")
        if health.error or (caught_up and not health.caught_up):
            self._note(name, error="", since_ms=None, caught_up=caught_up or health.caught_up)

    def _lost(self, name: str, error: Exception) -> None:
        health = self._health[name]
        text = str(error) or type(error).__name__
        if not health.error:
            self._log(f"topics.{name} cannot be read, trying again: {text}")
        self._note(name, error=text, since_ms=health.since_ms or self._now_ms())

    def _note(self, name: str, **changes: Any) -> None:
        """Changes the health of a topic, which only the topic's own thread does."""
        with self._lock:
            self._health[name] = replace(self._health[name], **changes)
        self._dirty.set()

    def _keep(self, on_turn: Callable[[LiveSnapshot], None]) -> None:
        """Makes a snapshot after changes."""
        while not self._stop.is_set():
            self._dirty.wait(_TICK_S)
            self._dirty.clear()
            self._renew()
            on_turn(self.snapshot)
            self._stop.wait(_SNAPSHOT_S)

    def _renew(self) -> None:
        now_ms, paused, starting = self._now_ms(), self._paused(), self._starting()
        with self._lock:
            self._fold.tick(now_ms)
            self.snapshot = LiveSnapshot(
                version=self._fold.version,
                clusters={name: one for name, one in self._fold.clusters(now_ms).items() if name},
                topics=tuple(self._health.values()),
                paused=paused,
                starting=starting,
                left_out=self._fold.left_out,
                skipped=self._skipped,
            )
