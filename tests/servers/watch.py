"""Whether the brokers of a test cluster still do their work; when not, which one, and what its threads wait for.

A broker that is dead or frozen (its only thread for metadata events waits for itself) makes every later test on the cluster fail with a
riddle. Here the first test that meets it says what happened, and the others say so at once.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.jvm import Server, java

#: A broker on a machine with 60 busy processes answers within seconds.
_PATIENCE_S = 60.0
_LOOKS = 2


@dataclass
class Watched:
    """The brokers by their ids, each with the process that it runs in. `fault`: what was found; it stays."""

    servers: Mapping[str, Server]
    headers: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = _PATIENCE_S
    fault: str = ""

    def look(self) -> str:
        """Why tests on this cluster cannot pass; empty when all brokers that were started work."""
        if not self.fault:
            self.fault = "; ".join(filter(None, [*self._ended(), *self._frozen()]))
        return self.fault

    def _ended(self) -> list[str]:
        return [f"{broker} has ended by itself, see {server.log}" for broker, server in self.servers.items() if server.has_ended]

    def _frozen(self) -> list[str]:
        running = [broker for broker, server in self.servers.items() if server.runs]
        with ThreadPoolExecutor(max(1, len(running))) as pool:
            return list(pool.map(self._fault_of, running))

    def _fault_of(self, broker: str) -> str:
        whys = []
        for _ in range(_LOOKS):
            why = self._silence(broker)
            if not why:
                return ""
            whys.append(why)
        dump = thread_dump(self.servers[broker])
        return f"{broker} does not read metadata any more ({whys[-1]}): it is frozen or stopped. Its threads are in {dump}"

    def _silence(self, broker: str) -> str:
        """Why it did not answer a question that needs metadata nobody has asked for before; empty if it did."""
        import httpx

        try:
            httpx.get(f"http://{broker}/admin/v2/tenants/{secrets.token_hex(8)}", headers=self.headers, timeout=self.patience_s)
        except httpx.HTTPError as error:
            return type(error).__name__
        return ""


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
