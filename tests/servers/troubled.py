"""An executor that moves bundles back and forth on a real cluster while parts of it hang, and what
its outcomes say about when each unload began.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sinks.executor.journal import Journal
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.model import Command, Outcome
from tests.control_topic import command, now_ms
from tests.faults.real_executor import RealExecutor
from tests.servers.pulsar_cluster import PulsarCluster
from tests.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tests.servers.pulsar_users import Bundles
from tests.servers.racing import producers_of
from tests.waiting import eventually

_BUNDLES, _TOPICS = 8, 2
#: Pulsar's own session timeout, so that a short freeze costs no session, and a long one does.
SESSION_S = 30
GATE_MS, SETTLE_MS, PAUSE_MS = 2_000, 5_000, 5_000
_LONG_S, _EVERY_S = 240.0, 0.5
#: Between the gate's last look and the call: what the journal and a busy machine take.
_BUSY_MS = 1_500


@dataclass
class Traveller:
    """Sends each bundle on, from broker to broker, as soon as its last command has its outcome."""

    cluster: PulsarCluster
    executor: RealExecutor
    owners: dict[str, str]
    open: dict[str, Command] = field(default_factory=dict)
    sent: list[Command] = field(default_factory=list)

    def outcomes(self) -> dict[str, Outcome]:
        """By command."""
        return {told.command_id: told for told in self.executor.control.outcomes()}

    def applied(self) -> int:
        """Moves that arrived."""
        return sum(told.status == "applied" for told in self.outcomes().values())

    def send_on(self) -> None:
        """The next command of every bundle that has none under way."""
        told = self.outcomes()
        for bundle in sorted(self.owners):
            last = self.open.get(bundle)
            if last is not None and last.id not in told:
                continue
            if last is not None:
                self.owners[bundle] = told[last.id].owner_after or self.owners[bundle]
            source = self.owners[bundle]
            place = self.cluster.brokers.index(source) + 1
            move = command(bundle, source, self.cluster.brokers[place % len(self.cluster.brokers)])
            self.open[bundle] = move
            self.sent.append(move)
            self.executor.control.send(move, key=self.executor.key)

    def go_on_for(self, seconds: float) -> None:
        """Sends commands for so long."""
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
                f"{told.status} {(told.reason or '').partition(':')[0]}".strip()
                for told in self.outcomes().values()
            )
        )

    def begun(self, after_ms: int, before_ms: int) -> list[Outcome]:
        """Commands for which a bundle was unloaded first between these times."""
        return [
            told
            for told in self.outcomes().values()
            if told.unloads and after_ms < told.ts - told.took_ms < before_ms
        ]


@dataclass(frozen=True)
class Troubled:
    """A cluster whose parts a test may freeze, and an executor at work."""

    processes: PulsarProcesses
    traveller: Traveller

    def freeze(self, part: str, seconds: float) -> None:
        """Stops the storage or a broker for so long, while commands go on; no unload may begin
        within that time but for the gate's own age.
        """
        server = (
            self.processes.cluster.server if part == "storage" else self.processes.servers[part]
        )
        moved = self.traveller.applied()
        self.traveller.go_on_until(
            lambda: self.traveller.applied() >= moved + 6, "nothing moves before the freeze"
        )
        server.pause()
        frozen_ms = now_ms()
        try:
            self.traveller.go_on_for(seconds)
        finally:
            server.resume()
            resumed_ms = now_ms()
        moved = self.traveller.applied()
        self.traveller.go_on_until(
            lambda: self.traveller.applied() >= moved + 6, "nothing moves after the freeze"
        )
        late = self.traveller.begun(frozen_ms + GATE_MS + _BUSY_MS, resumed_ms)
        assert late == [], [(told.ts - told.took_ms - frozen_ms, told) for told in late]
        assert any(
            (told.reason or "").startswith(("gate-", "breaker-"))
            for told in self.traveller.outcomes().values()
            if frozen_ms < told.ts
        ), self.traveller.summary()

    def end(self) -> dict[str, int]:
        """Stops sending, waits for all outcomes, and checks that nothing is half done."""
        traveller = self.traveller
        eventually(
            lambda: len(traveller.outcomes()) == len({one.id for one in traveller.sent}),
            _LONG_S,
            lambda: f"not every command has its outcome: {traveller.summary()}",
        )
        traveller.executor.kill()
        with closing(Journal(traveller.executor.folder / "state")) as journal:
            assert journal.unfinished() == []
        for told in traveller.outcomes().values():
            assert told.status in ("applied", "already-done") or told.reason, told
            assert (told.unloads or 0) <= 2, told
        return traveller.summary()


@contextmanager
def troubled(folder: Path) -> Iterator[Troubled]:
    """Three brokers, bundles with connected producers, and an executor that applies."""
    (folder / "cluster").mkdir()
    with ExitStack() as stack:
        processes = stack.enter_context(
            pulsar_processes(
                folder / "cluster",
                brokers=3,
                more={"metadataStoreSessionTimeoutMillis": str(SESSION_S * 1000)},
            )
        )
        cluster = processes.cluster
        namespace = cluster.namespace("troubled/all", _BUNDLES)
        admin = stack.enter_context(closing(PulsarAdmin(cluster.settings(folder))))
        used = Bundles(cluster, admin, namespace)
        stack.enter_context(producers_of(cluster, used.all, _TOPICS))
        executor = stack.enter_context(
            RealExecutor(
                folder / "executor",
                cluster.settings(folder),
                pulsar__deadline_ms=5_000,
                executor__arrival_timeout_ms=3_000,
                executor__gate_ms=GATE_MS,
                executor__settle_ms=SETTLE_MS,
                executor__breaker_failures=3,
                executor__breaker_ms=60_000,
                executor__breaker_pause_ms=PAUSE_MS,
                executor__unowned_hold_ms=10_000,
                executor__measure_ms=0,
            )
        )
        executor.start("--apply")
        owners = {bundle: used.owner(bundle) for bundle in used.all}
        yield Troubled(processes, Traveller(cluster, executor, owners))
