"""A job and an executor for tests of commands that wait for rounds: a thread that collects, folds
the telemetry topic with the plain loop, publishes rounds, and moves what they command.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rebalancer.settings.load import load
from sinks.plain_loop import PlainLoop
from sinks.topics.files.topic import FileTopicReader
from sinks.wire.codec import decode_command, decode_round, encode_outcome, encode_outcome_telemetry
from strategies.model import Command, Round
from tests.control_topic import Control, now_ms, outcome
from tests.telemetry_lines import T0, bundle, load_report, sweep
from tests.waiting import eventually

#: Of real time, between two rounds.
TURN_S = 0.1
SETTINGS = ("pulsar.cluster=c", "shedding.strategy=steady", "round.stale_after_ms=60000")


class FoldingJob:
    """`brokers` → whether it runs; `owners`: bundle → broker; `executes`: whether commands are
    carried out. Change them while it runs.
    """

    def __init__(self, control: Control, brokers: Sequence[str], bundles: int = 2) -> None:
        self.control = control
        self.brokers = dict.fromkeys(brokers, True)
        self.owners = {
            bundle(number): broker
            for number, broker in enumerate(name for name in brokers for _ in range(bundles))
        }
        self.executes = True
        self.on_turn: Callable[[], None] = lambda: None
        self._loop = PlainLoop(load(flags=list(SETTINGS)).engine)
        self._reader = FileTopicReader(control.folder / "telemetry")
        self._next = self._reader.begin()
        self._stop = threading.Event()
        self.failure = ""
        control.folder.joinpath("telemetry").mkdir(exist_ok=True)

    @contextmanager
    def running(self) -> Iterator[FoldingJob]:
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

    def rounds(self) -> list[Round]:
        if not (self.control.folder / "rounds").is_dir():
            return []
        return [decode_round(value) for value in self.control.read("rounds")]

    def turn(self) -> None:
        """A collection pass, and all that follows from the records until now."""
        self.on_turn()
        self._collect()
        records, self._next = self._reader.read(self._next)
        for record in records:
            for row in self._loop.feed(record.position, record.value):
                self.control.write(row.kind, [row.value])
                if row.kind == "commands" and self.executes:
                    self._execute(decode_command(row.value))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn()
            except Exception:
                self.failure = traceback.format_exc()
                return
            self._stop.wait(TURN_S)

    def _collect(self) -> None:
        live = [name for name, runs in self.brokers.items() if runs]
        seconds = (now_ms() - T0) / 1000
        reports = [
            load_report(
                broker,
                seconds,
                {name: 100.0 for name, owner in self.owners.items() if owner == broker},
                cpu=10.0 + 10 * sum(owner == broker for owner in self.owners.values()),
            )
            for broker in live
        ]
        missing = {name: "no answer" for name in self.brokers if name not in live}
        self.control.write("telemetry", [*reports, sweep(seconds, *live, missing=missing)])

    def _execute(self, command: Command) -> None:
        if command.destination is not None and command.is_move:
            self.owners[command.bundle] = command.destination
            done = replace(outcome(command, "applied"), ts=now_ms())
            self.control.write("outcomes", [encode_outcome(done)])
            self.control.write("telemetry", [encode_outcome_telemetry(done)])
