"""What restarts brokers for a roll: its restart command only leaves a file with the broker's name,
and waits until the supervisor has done it.
"""

import shlex
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.control_topic import now_ms
from tools.servers.pulsar_processes import PulsarProcesses

_EVERY_S = 0.05


@dataclass(frozen=True)
class Absence:
    """A broker did not serve, from the signal until it was ready again; ms since the epoch."""

    broker: str
    since: int
    until: int


@dataclass
class Supervisor:
    """`restarted`: what restart commands have asked for; `killed`: what a test has killed."""

    processes: PulsarProcesses
    folder: Path
    restarted: list[Absence] = field(default_factory=list)
    killed: list[Absence] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self._locks = {broker: threading.Lock() for broker in self.processes.servers}
        # A server dies with the thread that started it: these live until `close`.
        self._pool = ThreadPoolExecutor(len(self._locks), "supervisor")
        self._work: list[Future[None]] = []

    @property
    def command(self) -> str:
        """For --restart-command."""
        at = shlex.quote(str(self.folder))
        return (
            f'f=$(mktemp {at}/XXXXXX) && echo "$1" > "$f" && mv "$f" "$f.asked" || exit 1; '
            f'until [ -e "$f.done" ]; do [ -e {at}/closed ] && exit 1; sleep 0.1; done'
        )

    @property
    def restarts(self) -> Counter[str]:
        """Broker → how often it was restarted."""
        return Counter(one.broker for one in self.restarted)

    def forget(self) -> None:
        """Begins to count again."""
        self.restarted.clear()
        self.killed.clear()

    def watch(self) -> None:
        """Takes what is asked for, each at once, until the end."""
        while not self._ended.wait(_EVERY_S):
            for asked in sorted(self.folder.glob("*.asked")):
                taken = asked.rename(asked.with_suffix(".taken"))
                self._work.append(self._pool.submit(self._restart, taken))

    def kill(self, broker: str) -> None:
        """As a failure would; and starts it again."""
        with self._locks[broker]:
            since, server = now_ms(), self.processes.servers[broker]
            server.kill()
            self.processes.start([broker])
            self.killed.append(Absence(broker, since, now_ms()))

    def check(self) -> None:
        """Raises what went wrong in a restart."""
        for one in self._work:
            if one.done():
                one.result()

    def close(self) -> None:
        """Ends when all restarts have; commands that still wait fail."""
        self._ended.set()
        self._pool.shutdown(wait=True)
        (self.folder / "closed").touch()

    def _restart(self, taken: Path) -> None:
        broker = taken.read_text("utf-8").strip()
        with self._locks[broker]:
            since = now_ms()
            self.processes.servers[broker].shut_down()
            self.processes.start([broker])
            self.restarted.append(Absence(broker, since, now_ms()))
        taken.rename(taken.with_suffix(".done"))


@contextmanager
def supervised(processes: PulsarProcesses, folder: Path) -> Iterator[Supervisor]:
    """Until the context ends; the brokers that it started die with it."""
    supervisor = Supervisor(processes, folder)
    watching = threading.Thread(target=supervisor.watch, name="supervisor")
    watching.start()
    try:
        yield supervisor
    finally:
        supervisor.close()
        watching.join()


def most_at_a_time(absences: Sequence[Absence]) -> int:
    """How many did not serve at the same time, at most."""
    return max(
        (sum(one.since <= start.since < one.until for one in absences) for start in absences),
        default=0,
    )
