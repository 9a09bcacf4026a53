"""An executor on a fake cluster and file topics, one life after the other, each of which may end at
a chosen moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Literal

from sinks.executor.applier import Applier, RetryPolicy
from sinks.executor.costs import CostMeter
from sinks.executor.effect import Effect
from sinks.executor.executor import Executor, ExecutorTopics
from sinks.executor.journal import Journal
from sinks.executor.move import Allowance
from sinks.executor.rate_limiter import RateLimiter
from sinks.executor.settings import ExecutorConfig
from sinks.metrics.executor import ExecutorMetrics
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.access import Consumer, Publisher, TopicRecord, open_consumer, open_publisher
from sinks.wire.contracts.commands import CommandRecord
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


@dataclass(frozen=True)
class Life:
    """How one life of an executor differs from the usual one; `dies` names the moment of its
    death.
    """

    dies: Literal[
        "", "before the call", "after the call", "before publishing", "before committing"
    ] = ""
    later_ms: int = 0
    per_minute: int = 0
    limiter: RateLimiter | None = None


class StoryTime:
    """Passes only during waits: a busy machine sees as many looks as an idle one."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def wait(self, seconds: float) -> bool:
        self._now_s += seconds
        return False


class MortalApplier(Applier):
    """Dies when Pulsar is called."""

    def __init__(self, admin: PulsarAdmin, life: Life, time: StoryTime) -> None:
        super().__init__(
            admin, RetryPolicy(300, backoff_ms=0), time.wait, clock=time, sleep=time.wait
        )
        self.life = life

    def apply(self, command: CommandRecord, allowance: Allowance) -> Effect:
        if self.life.dies == "before the call":
            raise Death
        effect = super().apply(command, allowance)
        if self.life.dies == "after the call":
            raise Death
        return effect


@dataclass(frozen=True)
class MortalPublisher:
    """Dies before anything is on the topic."""

    publisher: Publisher
    life: Life

    def publish(self, key: str, value: bytes) -> None:
        if self.life.dies == "before publishing":
            raise Death
        self.publisher.publish(key, value)

    def flush(self) -> None:
        self.publisher.flush()

    def close(self) -> None:
        self.publisher.close()


@dataclass(frozen=True)
class MortalConsumer:
    """Dies instead of committing."""

    consumer: Consumer
    life: Life

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        return self.consumer.poll(max_records, timeout_s, max_bytes)

    def commit(self, record: TopicRecord) -> None:
        if self.life.dies == "before committing":
            raise Death
        self.consumer.commit(record)

    def close(self) -> None:
        self.consumer.close()


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
    state = control.folder / "state"
    with ExitStack() as stack:
        admin = stack.enter_context(
            closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls, backoff_ms=0)))
        )
        journal = stack.enter_context(closing(Journal(state)))
        outcomes, telemetry, rejected = (
            open_publisher(topic_of(control.uri(topic)))
            for topic in ("outcomes", "telemetry", "rejected")
        )
        commands, rounds = (
            open_consumer(topic_of(control.uri(topic)), "executor", state)
            for topic in ("commands", "rounds")
        )
        topics = ExecutorTopics(
            MortalConsumer(commands, life),
            rounds,
            MortalPublisher(outcomes, life),
            telemetry,
            rejected,
            None
            if config.approvals_key is None
            else open_consumer(topic_of(control.uri("approvals")), "executor", state),
        )
        stack.callback(topics.close)
        time = StoryTime()
        patience_ms = config.guard.gate.facts_ms or 30_000
        quick = stack.enter_context(
            closing(
                PulsarAdmin(
                    PulsarSettings("c", pulsar.admin_urls, attempts=1, deadline_ms=patience_ms)
                )
            )
        )
        yield Executor(
            config,
            topics,
            journal=journal,
            admin=admin,
            applier=MortalApplier(admin, life, time),
            quick=quick,
            meter=CostMeter(quick, config.guard.measure_ms, time.wait, time),
            limiter=life.limiter or RateLimiter(life.per_minute, wait=lambda _: True),
            frozen=frozen,
            clock_ms=lambda: clock_ms() + life.later_ms,
            on_outcome=metrics.published if metrics else lambda _: None,
            on_refused=metrics.refused if metrics else lambda _: None,
            on_answer=metrics.answered if metrics else lambda _: None,
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
