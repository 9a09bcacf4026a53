"""An executor on a fake cluster, life after life, each of which may end at a chosen moment."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.executor import Executor
from sinks.executor.journal import Journal
from sinks.executor.move_gate_and_holds import RateLimiter
from sinks.executor.outcome_status_and_reason import Allowance, Effect
from sinks.executor.pause_meter import CostMeter
from sinks.executor.settings import ExecutorConfig
from sinks.executor.task_intake import ExecutorTopics
from sinks.metrics.service_metrics import ExecutorMetrics
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import TopicRecord, open_consumer, open_publisher
from strategies.cluster.model import Command
from tests.control_topic import Control, now_ms
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_of

BUNDLES = (
    "t/ns/0x00000000_0x40000000",
    "t/ns/0x40000000_0x80000000",
    "t/ns/0x80000000_0xc0000000",
    "t/ns/0xc0000000_0xffffffff",
)
ONE, TWO, THREE, FOUR = BUNDLES
APPLY = ExecutorConfig("c", apply=True)


class Death(BaseException):
    """The process is killed."""


#: Beyond the number of moments of any life.
NEVER = 10**6


class Fuse:
    """Kills the process at its `at`-th moment and from then on, or at each moment of a name."""

    def __init__(self, at: int = NEVER, name: str = "") -> None:
        self._left, self._name, self._lock = at, name, threading.Lock()
        self.blown = False

    def __call__(self, moment: str = "") -> None:
        with self._lock:
            self._left -= 1
            self.blown = self.blown or self._left < 0
        self.check(moment)

    def check(self, moment: str) -> None:
        """The same, for what leaves no trace by itself."""
        if self.blown or (moment and moment == self._name):
            raise Death


@dataclass(frozen=True)
class Life:
    """How a life differs from the usual one; `dies`: moment of its death, `fuse` counts to it."""

    dies: str = ""
    later_ms: int = 0
    per_minute: int = 0
    limiter: RateLimiter | None = None
    fuse: Fuse | None = None
    measure_ms: int = 0


class StoryTime:
    """Passes only during waits: a busy machine sees as many looks as an idle one."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def wait(self, seconds: float) -> bool:
        self._now_s += seconds
        return False


class FusedApplier(Applier):
    """May die before and after a command is carried out."""

    def __init__(self, admin: PulsarAdmin, fuse: Fuse, time: StoryTime) -> None:
        retry = RetryPolicy(300, backoff_ms=0)
        super().__init__(admin, retry, time.wait, clock=time, sleep=time.wait)
        self._fuse = fuse

    def apply(self, command: Command, allowance: Allowance) -> Effect:
        self._fuse("before the call")
        effect = super().apply(command, allowance)
        self._fuse("after the call")
        return effect


class FusedAdmin(PulsarAdmin):
    """May die before and after an unload."""

    def __init__(self, pulsar: FakePulsar, fuse: Fuse) -> None:
        super().__init__(PulsarSettings("c", pulsar.admin_urls, backoff_ms=0))
        self._fuse = fuse

    def unload(self, bundle: str, destination: str | None) -> None:
        self._fuse()
        super().unload(bundle, destination)
        self._fuse()


class FusedJournal(Journal):
    """May die before and after a change is on the disk."""

    def __init__(self, folder: Path, fuse: Fuse) -> None:
        self._fuse = fuse
        super().__init__(folder)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        self._fuse()
        with super().writing() as db:
            yield db
        self._fuse()


@dataclass(frozen=True)
class FusedTopic:
    """A consumer or a publisher that may die before and after each call that leaves a trace."""

    topic: Any
    fuse: Fuse

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        polled: Sequence[TopicRecord] = self.topic.poll(max_records, timeout_s, max_bytes)
        return polled

    def commit(self, record: TopicRecord) -> None:
        self.fuse("before committing")
        self.topic.commit(record)
        self.fuse()

    def publish(self, key: str, value: bytes) -> None:
        self.fuse.check("before publishing")
        self.topic.publish(key, value)

    def flush(self) -> None:
        self.fuse()
        self.topic.flush()
        self.fuse()

    def close(self) -> None:
        self.topic.close()


@contextmanager
def executor(
    pulsar: FakePulsar,
    control: Control,
    config: ExecutorConfig = APPLY,
    life: Life = Life(),
    frozen: Callable[[Sequence[str]], str] = lambda _: "",
    *,
    metrics: ExecutorMetrics | None = None,
    clock_ms: Callable[[], int] = now_ms,
) -> Iterator[Executor]:
    """One life of an executor; the next one goes on where it stopped."""
    state, fuse = control.folder / "state", life.fuse or Fuse(name=life.dies)

    def consumer(name: str) -> FusedTopic:
        return FusedTopic(open_consumer(topic_of(control.uri(name)), "executor", state), fuse)

    with ExitStack() as stack:
        admin = stack.enter_context(closing(FusedAdmin(pulsar, fuse)))
        journal = stack.enter_context(closing(FusedJournal(state, fuse)))
        outcomes, telemetry, rejected = (
            FusedTopic(open_publisher(topic_of(control.uri(topic))), fuse)
            for topic in ("outcomes", "telemetry", "rejected")
        )
        approvals = None if config.approvals_key is None else consumer("approvals")
        topics = ExecutorTopics(
            consumer("commands"), consumer("rounds"), outcomes, telemetry, rejected, approvals
        )
        for topic in filter(None, vars(topics).values()):
            stack.callback(topic.close)
        time, patience_ms = StoryTime(), config.guard.gate.facts_ms or 30_000
        once = PulsarSettings("c", pulsar.admin_urls, attempts=1, deadline_ms=patience_ms)
        quick = stack.enter_context(closing(PulsarAdmin(once)))
        yield Executor(
            config,
            topics,
            journal=journal,
            admin=admin,
            applier=FusedApplier(admin, fuse, time),
            quick=quick,
            meter=CostMeter(quick, life.measure_ms, time.wait, time),
            limiter=life.limiter or RateLimiter(life.per_minute, wait=lambda _: True),
            frozen=frozen,
            clock_ms=lambda: clock_ms() + life.later_ms,
            on_result=metrics.add if metrics else lambda _: None,
        )


def run(
    pulsar: FakePulsar, control: Control, config: ExecutorConfig = APPLY, life: Life = Life()
) -> list[tuple[str, str]]:
    """All there is; status and reason code of each outcome so far."""
    with executor(pulsar, control, config, life) as one:
        one.recover()
        while one.step(0):
            pass
    return control.verdicts()


def lives_until_done(
    pulsar: FakePulsar, control: Control, config: ExecutorConfig, dies: Iterator[int]
) -> int:
    """Number of lives until one ends by itself; each of the others dies after so many moments."""
    for number in count(1):
        fuse = Fuse(next(dies, NEVER))
        with suppress(Death):
            run(pulsar, control, config, Life(fuse=fuse))
            assert not fuse.blown
            return number
    raise AssertionError("count() has no end")
