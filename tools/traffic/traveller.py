"""Keeps an executor busy: sends bundles on from broker to broker, and reads what became of each
command.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from sinks.executor.journal import Journal
from strategies.cluster.model import Command, Outcome
from tests.control_topic import command
from tools.processes.real_executor import RealExecutor
from tools.waiting import eventually

_LONG_S, _EVERY_S = 240.0, 0.5


@dataclass
class Traveller:
    """Sends each bundle on, from broker to broker, as soon as its last command has its outcome."""

    brokers: Sequence[str]
    executor: RealExecutor
    owners: dict[str, str]
    open: dict[str, Command] = field(default_factory=dict)
    sent: list[Command] = field(default_factory=list)

    def outcomes(self) -> dict[str, Outcome]:
        """By command."""
        return {one.command_id: one for one in self.executor.control.outcomes()}

    def applied(self) -> int:
        """Moves that arrived."""
        return sum(one.status == "applied" for one in self.outcomes().values())

    def send_on(self) -> None:
        """The next command of every bundle that has none under way."""
        outcomes = self.outcomes()
        for bundle in sorted(self.owners):
            last = self.open.get(bundle)
            if last is not None and last.id not in outcomes:
                continue
            if last is not None:
                self.owners[bundle] = outcomes[last.id].owner_after or self.owners[bundle]
            source = self.owners[bundle]
            place = self.brokers.index(source) + 1
            move = command(bundle, source, self.brokers[place % len(self.brokers)])
            self.open[bundle] = move
            self.sent.append(move)
            self.executor.control.send(move, key=self.executor.key)

    def go_on_for(self, seconds: float) -> None:
        """Sends commands for this duration."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.send_on()
            time.sleep(_EVERY_S)

    def go_on_until(self, true: Callable[[], bool], what: str) -> None:
        """Sends commands until something holds."""

        def holds() -> bool:
            self.send_on()
            return true()

        eventually(holds, _LONG_S, lambda: f"{what}: {self.summary()}", every_s=_EVERY_S)

    def summary(self) -> dict[str, int]:
        """How many outcomes of each sort: status and code."""
        return dict(
            Counter(
                f"{one.status} {(one.reason or '').partition(':')[0]}".strip()
                for one in self.outcomes().values()
            )
        )

    def begun(self, after_ms: int, before_ms: int) -> list[Outcome]:
        """Commands for which a bundle was unloaded first between these times."""
        return [
            one
            for one in self.outcomes().values()
            if one.cost.unloads and after_ms < one.ts - one.took_ms < before_ms
        ]

    def end(self) -> dict[str, int]:
        """Waits for all outcomes, ends the executor, and checks that nothing is half done: each
        command has an outcome with a reason, and two unloads at most.
        """
        eventually(
            lambda: len(self.outcomes()) == len(self.sent),
            _LONG_S,
            lambda: f"not every command has its outcome: {self.summary()}",
        )
        assert self.executor.stop(signal.SIGTERM) == 0
        with closing(Journal(self.executor.folder / "state")) as journal:
            assert journal.unfinished() == []
        for one in self.outcomes().values():
            assert one.status in ("applied", "already-done") or one.reason, one
            assert (one.cost.unloads or 0) <= 2, one
        return self.summary()
