"""A job and an executor in a thread: it collects, folds, publishes rounds, and moves; and a person
at a command line beside it.
"""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Timer
from typing import Any

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.secret_file import read_secret
from sinks.topics.files.topic import FileTopicReader
from sinks.wire.record_decoding import decode, decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome, encode_outcome_telemetry, encode_round
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import Command, Round
from tests.control_topic import Control, now_ms, outcome
from tests.telemetry_lines import T0, bundle, load_report, sweep
from tests.unit.command_line import Answer, rebalancer
from tests.world.splits import children_of
from tools.processes.set_words import set_words
from tools.waiting import eventually

#: Of real time, between two rounds, and what passes meanwhile on the cluster's clock. A test may
#: take a minute: then the two differ by as much as a record may (round.max_clock_jump_ms).
TURN_S, TURN_MS = 0.2, 1_000
SETTINGS = (
    "pulsar.cluster=c",
    "shedding.strategy=steady",
    "round.interval_ms=1000",
    "round.lateness_ms=200",
    "round.stale_after_ms=2000",
    "round.command_ttl_ms=5000",
    "round.cool_down_ms=6000",
)


A, B, C = "a:1", "b:1", "c:1"


class FoldingJob:
    """`brokers` → whether it runs; `owners`: bundle → broker; `executes`: whether commands are
    carried out; `intents_key`: see `signing.intents_key_file`; `says`: what it publishes of a
    round. Change them while it runs. `now_ms`: of the cluster's clock.
    """

    def __init__(self, control: Control, brokers: Sequence[str], bundles: int = 2) -> None:
        self.control = control
        self.brokers = dict.fromkeys(brokers, True)
        self.owners = {
            bundle(number): broker
            for number, broker in enumerate(name for name in brokers for _ in range(bundles))
        }
        self.executes = True
        self.intents_key: SigningKey | None = None
        self.on_turn: Callable[[], None] = lambda: None
        self.says: Callable[[Round], Round] = lambda done: done
        self._loop = PlainLoop(load(flags=list(SETTINGS)).engine)
        self._reader = FileTopicReader(control.folder / "telemetry")
        self._next = self._reader.begin()
        self._stop, self._goes = threading.Event(), threading.Event()
        self._goes.set()
        self.failure = ""
        self.now_ms = now_ms()
        self._turning = threading.Lock()
        control.folder.joinpath("telemetry").mkdir(exist_ok=True)

    @contextmanager
    def running(self) -> "Iterator[FoldingJob]":
        """Runs it beside the block, from its first round on."""
        thread = threading.Thread(target=self._run, name="folding-job", daemon=True)
        thread.start()
        try:
            eventually(lambda: bool(self.failure) or bool(self.rounds()))
            yield self
        finally:
            self._stop.set()
            thread.join(30)
        assert not self.failure, self.failure

    @contextmanager
    def held(self) -> Iterator[None]:
        """No turn begins, until the end of the block or `go_on`."""
        self._goes.clear()
        with self._turning:
            pass
        try:
            yield
        finally:
            self._goes.set()

    def begin_again(self) -> None:
        """With a new checkpoint, which knows nothing of the records until now."""
        with self._turning:
            self._loop = PlainLoop(load(flags=[*SETTINGS, "round.epoch=2"]).engine)

    def demand_signatures(self) -> list[str]:
        """From now on it accepts only signed intents; returns the setting of who signs them."""
        key = self.control.folder / "key"
        key.write_text("k" * 32)
        self.intents_key = SigningKey(read_secret(str(key), "signing.intents_key_file"))
        return [f"signing.intents_key_file={key}"]

    def go_on(self) -> None:
        self._goes.set()

    def rounds(self) -> list[Round]:
        if not (self.control.folder / "rounds").is_dir():
            return []
        return [decode_round(value) for value in self.control.read("rounds")]

    def after(self, turns: int) -> "FoldingJob":
        for _ in range(turns):
            self.turn()
        return self

    def turn(self) -> None:
        """A collection pass, and all that follows from the records until now."""
        self.on_turn()
        self._collect()
        records, self._next = self._reader.read(self._next)
        for record in records:
            self._loop.intents_key = self.intents_key
            for row in self._loop.feed(record.position, record.value):
                value = row.value
                if row.kind == "rounds":
                    value = encode_round(self.says(decode_round(value)))
                self.control.write(row.kind, [value])
                if row.kind == "commands" and self.executes:
                    self._execute(decode_command(row.value))

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._goes.wait(0.05):
                continue
            try:
                with self._turning:
                    self.turn()
            except Exception:
                self.failure = traceback.format_exc()
                return
            self._stop.wait(TURN_S)

    def _collect(self) -> None:
        live = [name for name, runs in self.brokers.items() if runs]
        self.now_ms += TURN_MS
        seconds = (self.now_ms - T0) / 1000
        reports = [
            load_report(
                broker,
                seconds,
                {name: 100.0 for name, owner in self.owners.items() if owner == broker},
                cpu=10.0 + 5 * sum(owner == broker for owner in self.owners.values()),
            )
            for broker in live
        ]
        missing = {name: "no answer" for name in self.brokers if name not in live}
        self.control.write("telemetry", [*reports, sweep(seconds, *live, missing=missing)])

    def _execute(self, command: Command) -> None:
        if command.action == "split":
            owner, parts = self.owners.pop(command.bundle), command.boundaries
            self.owners |= dict.fromkeys(children_of(command.bundle, parts), owner)
        elif command.destination is not None and command.is_move:
            self.owners[command.bundle] = command.destination
        if command.destination is not None or command.action == "split":
            done = replace(outcome(command, "applied"), ts=self.now_ms)
            self.control.write("outcomes", [encode_outcome(done)])
            self.control.write("telemetry", [encode_outcome_telemetry(done)])


@dataclass(frozen=True)
class Person:
    """A person at a command line whose settings name the topics of `control`."""

    control: Control

    def types(
        self,
        *words: object,
        stop_after_s: float | None = None,
        stop_by: signal.Signals = signal.SIGINT,
        **more: str,
    ) -> Answer:
        """`stop_after_s`: until the signal `stop_by`; `more`: settings, with __ for dots."""
        timer = Timer(stop_after_s or 0, os.kill, (os.getpid(), stop_by))
        if stop_after_s is not None:
            timer.start()
        try:
            return rebalancer(*words, *self.settings(**more))
        finally:
            timer.cancel()

    def drains(self, broker: str, *words: object, **more: Any) -> Answer:
        """Without an interest in the reason."""
        return self.types("drain", broker, "--reason", "x", *words, **more)

    def settings(self, **more: object) -> list[str]:
        return set_words(self.control.settings(**more))

    def written(self) -> list[Intent]:
        records = [decode(value, b"") for value in self.control.read("telemetry")]
        return [one for one in records if isinstance(one, Intent)]
