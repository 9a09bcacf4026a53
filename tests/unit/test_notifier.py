"""The notifier dies before or after any of its steps, everywhere once: no notice is lost or out of
order, and a repeated one has the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.log import Kind
from pulsar_rebalancer.decisions.notices.decide import NoticeMemory, NoticeRules
from pulsar_rebalancer.decisions.notices.notifier import NoticeSource, Notifier, Outbox, Stored
from sinks.notices.delivery import Delivery, Fate, Notice
from sinks.notices.settings import NoticeSettings, webhook
from sinks.topics.access import Consumer, TopicRecord, open_consumer
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.codec import encode_command, encode_outcome, encode_round
from sinks.wire.origin import Position
from strategies.cluster.model import Outcome
from tests.control_topic import command
from tests.notice_builders import MINUTE, T0, a_round
from tests.topic_uris import topic_of

RULES = NoticeRules(frozenset({"blind", "plan", "failed", "silent"}), 2, 5 * MINUTE, 0)
SETTINGS = NoticeSettings(url="http://127.0.0.1:1/")
BUNDLE = "t/n/0x00000000_0x80000000"


class Death(BaseException):
    """The process is killed."""


@dataclass
class Life:
    """Notifiers one after the other on the same folder, of which one is killed at its step `at`,
    once; None: never.
    """

    folder: Path
    at: int | None = None
    steps: int = 0
    arrived: list[Notice] = field(default_factory=list)

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise Death

    def live(self) -> None:
        """Until nothing is left to read, or death."""
        with closing(DyingOutbox(self)) as outbox:
            kinds: tuple[Kind, ...] = ("rounds", "commands", "outcomes")
            sources = [NoticeSource(kind, DyingConsumer(self, kind)) for kind in kinds]
            notifier = Notifier(sources, outbox, DyingDelivery(self), RULES, clock_ms=lambda: T0)
            while notifier.step(0):
                pass
            assert notifier.waiting == 0

    def publish(self) -> None:
        moves = [
            command(BUNDLE, "a:1", id=f"c-{n}", issued_at_ms=T0 + n * MINUTE) for n in (3, 4, 5)
        ]
        moves = [replace(one, cluster="prod", expires_at_ms=T0 + 60 * MINUTE) for one in moves]
        codes = ("blind", "blind", "acting", "acting", "acting", "blind", "blind")
        failed = [
            Outcome(f"c-{n}", "prod", BUNDLE, "failed", "x: y", "a:1", None, 1, T0 + n)
            for n in range(3)
        ]
        records = {
            "commands": [encode_command(one) for one in moves],
            "rounds": [encode_round(a_round(code, n)) for n, code in enumerate(codes, 1)],
            "outcomes": [encode_outcome(one) for one in failed],
        }
        for name, values in records.items():
            with FileTopicWriter(self.folder / name) as topic:
                topic.append(values)


class DyingConsumer:
    """Reads two records at a time, and dies around a commit."""

    def __init__(self, life: Life, name: str) -> None:
        topic = topic_of(f"file://{life.folder / name}")
        self.inner: Consumer = open_consumer(topic, "g", life.folder / "state")
        self.life = life

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        return self.inner.poll(2, timeout_s, max_bytes)

    def commit(self, record: TopicRecord) -> None:
        self.life.step()
        self.inner.commit(record)
        self.life.step()

    def close(self) -> None: ...


class DyingOutbox(Outbox):
    def __init__(self, life: Life) -> None:
        super().__init__(life.folder / "state")
        self.life = life

    def write(self, stored: Stored) -> None:
        self.life.step()
        super().write(stored)
        self.life.step()


class DyingDelivery(Delivery):
    """Keeps what arrives."""

    def __init__(self, life: Life) -> None:
        super().__init__(webhook(SETTINGS), SETTINGS, lambda _: True, lambda _: None)
        self.life = life

    def deliver(self, notice: Notice) -> Fate:
        self.life.step()
        self.life.arrived.append(notice)
        self.life.step()
        return "delivered"


def by_topic(notices: Sequence[Notice]) -> list[list[str]]:
    """The ids of notices about states, plans and outcomes, a repeated delivery once. Between two
    topics there is no order.
    """
    kinds = (("blind", "ended"), ("plan",), ("failed",))
    parts = [[one for one in notices if one.kind in part] for part in kinds]
    return [[name for name, _ in groupby(one.id for one in part)] for part in parts]


@pytest.mark.heavy
def test_a_death_at_any_step_loses_and_reorders_nothing(tmp_path: Path) -> None:
    whole = Life(tmp_path / "whole")
    whole.live()
    whole.publish()
    whole.live()
    wanted = by_topic(whole.arrived)
    assert [len({*ids}) for ids in wanted] == [len(ids) for ids in wanted] == [3, 3, 3]
    deaths = 0
    for at in range(1, whole.steps + 1):
        life = Life(tmp_path / str(at), at)
        for published in (False, True):
            if published:
                life.publish()
            try:
                life.live()
            except Death:
                deaths += 1
                life.live()
        assert by_topic(life.arrived) == wanted, f"death at step {at}"
        assert len(life.arrived) <= sum(map(len, wanted)) + 1
    assert deaths == whole.steps


@pytest.mark.parametrize(
    ("topic", "kept"),
    [("file:///rounds", [(3, 7)]), ("kafka://h:1/rounds", [(0, 20), (1, 5), (3, 7)])],
)
def test_places_of_processed_records(topic: str, kept: list[tuple[int, int]]) -> None:
    seen = [Position(topic, 0, 20), Position(topic, 1, 5), Position(topic, 3, 7)]
    memory = NoticeMemory(T0)
    stored = Stored(1, memory).with_records(seen, memory, [])
    assert stored.places[topic] == kept
    assert all(stored.has(position) for position in seen)
    assert not stored.has(Position(topic, 3, 8))
    assert not stored.has(Position(topic, 4, 0))
    assert not stored.has(Position("another", 0, 0))
    assert stored.has(Position(topic, 2, 0)) == topic.startswith("file")
