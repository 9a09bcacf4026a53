"""A whole installation whose parts can be killed while the others go on: Kafka broker, collector,
job, Python workers of Spark, and executor, on a fake Pulsar cluster.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import Fault
from tools.kills.kill_job import newest_batch, newest_commit
from tools.kills.wavering import WaveringLoad
from tools.processes.process import Process
from tools.processes.real_executor import RealExecutor
from tools.processes.real_job import RealJob
from tools.servers.kafka_broker import KafkaBroker

Victim = Literal["job", "worker", "executor", "collector", "broker"]
VICTIMS: tuple[Victim, ...] = get_args(Victim)
#: How long a micro-batch, and a release of a bundle, are waited for.
_BATCH_S, _RELEASE_S = 300.0, 30.0


@dataclass(frozen=True, slots=True)
class Kill:
    """`sharp`: at a moment that matters (the job in a micro-batch, the executor while a bundle is
    released) rather than at any time; `delay_s`: after the moment. `early`: the executor dies
    before the bundle is released, not after.
    """

    victim: Victim
    sharp: bool
    delay_s: float
    early: bool = False


@dataclass
class Installation:
    """The processes, and what has happened to them. `job_words`: options of the job.

    `sharp`: victim → number of kills at a moment that matters; `ended`: process → how often it
    ended by itself, and was started again.
    """

    broker: KafkaBroker
    load: WaveringLoad
    job: RealJob
    executor: RealExecutor
    collector: Process
    job_words: Sequence[str]
    rng: random.Random
    sharp: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        """Starts job and executor, as broker and collector run already."""
        self._start_job()
        self._start_executor()

    def kill(self, kill: Kill) -> None:
        """One kill, and the start of the next life."""
        match kill.victim:
            case "job":
                self._kill_job(kill)
            case "worker":
                self._kill_worker(kill)
            case "executor":
                self._kill_executor(kill)
            case "collector":
                self.rest(kill.delay_s)
                self.collector.kill()
                self.collector.start()
            case "broker":
                self.rest(kill.delay_s)
                self.broker.server.kill()
                self.broker.server.start()

    def rest(self, seconds: float) -> None:
        """Lets all processes work."""
        self._wait_for(lambda: False, seconds)

    def stop(self) -> None:
        """The end of collector and executor, by kill; the job then has to read what is there."""
        self.collector.kill()
        self.executor.kill()
        self.job.kill()

    def _kill_job(self, kill: Kill) -> None:
        if kill.sharp:
            self._wait_for_batch()
        self.rest(kill.delay_s)
        self.job.kill()
        checkpoint = self.job.checkpoint
        self.sharp["job"] += newest_batch(checkpoint) > newest_commit(checkpoint)
        self._start_job()

    def _kill_worker(self, kill: Kill) -> None:
        """One of Spark's Python processes, of a job that works."""
        until, workers = time.monotonic() + _BATCH_S, list[int]()
        while not workers:
            assert time.monotonic() < until, (
                f"micro-batches, and no Python worker of Java for {_BATCH_S:g} s: "
                f"{[running(pid) for pid in sorted(self.job.processes())]}"
            )
            self._wait_for_batch()
            time.sleep(kill.delay_s)
            workers = python_workers(self.job.processes())
        checkpoint = self.job.checkpoint
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(workers), signal.SIGKILL)
        self.sharp["worker"] += newest_batch(checkpoint) > newest_commit(checkpoint)

    def _kill_executor(self, kill: Kill) -> None:
        died = threading.Event()

        def die(_: Request) -> Fault:
            self.executor.kill_now()
            died.set()
            return Fault(drop=kill.early, drop_after=not kill.early)

        if kill.sharp:
            self.load.at_release = die
            self.sharp["executor"] += self._wait_for(died.is_set, _RELEASE_S, ("executor",))
            self.load.at_release = lambda _: None
        else:
            self.rest(kill.delay_s)
        self.executor.kill()
        self._start_executor()

    def _wait_for_batch(self) -> None:
        before = newest_batch(self.job.checkpoint)
        begun = self._wait_for(lambda: newest_batch(self.job.checkpoint) > before, _BATCH_S)
        assert begun, f"no micro-batch for {_BATCH_S:g} s, see {self.job.log}"

    def _wait_for(
        self, true: Callable[[], bool], seconds: float, spared: Collection[str] = ()
    ) -> bool:
        """Whether it came true in time; what ends by itself meanwhile is started again, but for
        those that are `spared`.
        """
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() >= until:
                return False
            self._revive(spared)
            time.sleep(0.02)
        return True

    def _revive(self, spared: Collection[str]) -> None:
        if not self.job.running:
            self.ended["job"] += 1
            self.job.kill()
            self._start_job()
        if "executor" not in spared and self.executor.dead:
            self.ended["executor"] += 1
            self._start_executor()
        if not self.collector.runs:
            self.ended["collector"] += 1
            self.collector.start()

    def _start_job(self) -> None:
        self.job.start(*self.job_words)

    def _start_executor(self) -> None:
        self.executor.start("--apply")


@dataclass(frozen=True, slots=True)
class Running:
    """A process: the file name of its program, and its parent."""

    program: str
    parent: int


def python_workers(processes: Collection[int]) -> list[int]:
    """Those that Spark's Java has started."""
    return started_by_java({pid: seen for pid in processes if (seen := running(pid)) is not None})


def started_by_java(processes: Mapping[int, Running]) -> list[int]:
    """The daemon that forks workers, and the workers. A worker whose daemon was killed goes on: it
    is a child of a process that is not among these, as the driver is.
    """
    java = {pid for pid, one in processes.items() if one.program == "java"}
    if not java:
        return []
    drivers = {processes[pid].parent for pid in java}
    orphans = {pid for pid, one in processes.items() if one.parent not in processes} - drivers
    found, parents = orphans, java | orphans
    while parents:
        parents = {pid for pid, one in processes.items() if one.parent in parents} - found
        found |= parents
    return sorted(found - java)


def running(pid: int) -> Running | None:
    """A process; None if it has ended."""
    try:
        # The second field is in parentheses and may contain anything.
        parent = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1]
        return Running(Path(os.readlink(f"/proc/{pid}/exe")).name, int(parent))
    except OSError:
        return None
