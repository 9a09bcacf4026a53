"""An executor that moves bundles back and forth on a real cluster while parts of it hang, and what
its outcomes say about when each unload began.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sinks.pulsar_api.admin import PulsarAdmin
from tests.control_topic import now_ms
from tools.processes.real_executor import RealExecutor
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tools.traffic.bundle_users import Bundles
from tools.traffic.racing import producers_of
from tools.traffic.traveller import Traveller

_BUNDLES, _TOPICS = 8, 2
#: Pulsar's own session timeout, so that a short freeze costs no session, and a long one does.
SESSION_S = 30
GATE_MS, PAUSE_MS = 2_000, 5_000
#: Between the gate's last look and the call: what the journal and a busy machine take.
_BUSY_MS = 1_500


@dataclass(frozen=True)
class Troubled:
    """A cluster whose parts a test may freeze, and an executor at work."""

    processes: PulsarProcesses
    traveller: Traveller

    def freeze(self, part: str, seconds: float) -> None:
        """Stops the storage or a broker for `seconds`, while commands go on; no unload may begin
        within that time but for the gate's own age. A broker that stays silent is lost with its
        session; the time that the executor lets pass after that is longer than the rest.
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
        assert late == [], [(one.ts - one.took_ms - frozen_ms, one) for one in late]
        assert any(
            (one.reason or "").startswith(("gate-", "breaker-"))
            for one in self.traveller.outcomes().values()
            if frozen_ms < one.ts
        ), self.traveller.summary()


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
                executor__breaker_pause_ms=PAUSE_MS,
                executor__measure_ms=0,
            )
        )
        executor.start("--apply")
        owners = {bundle: used.owner(bundle) for bundle in used.all}
        yield Troubled(processes, Traveller(cluster.brokers, executor, owners))
