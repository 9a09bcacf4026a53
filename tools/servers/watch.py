"""Whether the brokers of a test cluster still do their work; when not, which one, and what its
threads wait for.

A broker that is dead or frozen (its only thread for metadata events waits for itself) makes every
later test on the cluster fail with a riddle. Here the first test that meets it says what happened,
and the others say so at once. A broker that answers nothing is as bad for tests as a frozen one, so
both count.
"""

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.frozen_brokers import look, probing
from tools.servers.java_here import java
from tools.servers.jvm import Server

#: A broker on a machine with 60 busy processes answers within seconds.
_PATIENCE_MS = 60_000
_LOOKS = 2


@dataclass
class Watched:
    """The brokers by their ids, each with the process that it runs in. `settings`: how to ask them,
    None = only ended ones are found.

    `fault`: what was found; it stays.
    """

    servers: Mapping[str, Server]
    settings: PulsarSettings | None = None
    patience_ms: int = _PATIENCE_MS
    fault: str = ""

    def look(self) -> str:
        """Why tests on this cluster cannot pass; empty when all brokers that were started work."""
        if not self.fault:
            self.fault = "; ".join(filter(None, [*self._ended(), *self._frozen()]))
        return self.fault

    def _ended(self) -> list[str]:
        return [
            f"{broker} has ended by itself, see {server.log}"
            for broker, server in self.servers.items()
            if server.has_ended
        ]

    def _frozen(self) -> list[str]:
        running = [broker for broker, server in self.servers.items() if server.runs]
        if self.settings is None or not running:
            return []
        with (
            closing(PulsarAdmin(probing(self.settings, self.patience_ms))) as admin,
            ThreadPoolExecutor(len(running)) as pool,
        ):
            return list(pool.map(partial(self._fault_of, admin), running))

    def _fault_of(self, admin: PulsarAdmin, broker: str) -> str:
        if any(look(admin, broker) == "reads" for _ in range(_LOOKS)):
            return ""
        dump = thread_dump(self.servers[broker])
        return (
            f"{broker} does not read metadata any more: it is frozen or stopped. Its threads are "
            f"in {dump}"
        )


def thread_dump(server: Server) -> Path:
    """A file beside the server's log."""
    file = server.folder / f"threads-{server.pid}.txt"
    words = [java().removesuffix("java") + "jcmd", str(server.pid), "Thread.print"]
    try:
        file.write_bytes(subprocess.run(words, capture_output=True, timeout=15, check=False).stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        file.write_text(f"no thread dump: {error}", "utf-8")
    return file


def first_fault(clusters: Sequence[Watched]) -> str:
    """Of several clusters."""
    return next((fault for cluster in clusters if (fault := cluster.look())), "")
