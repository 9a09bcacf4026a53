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

from pulsar_rebalancer.decisions.notices.decide import NoticeRules
from pulsar_rebalancer.decisions.notices.notifier import NoticeSources, Notifier
from sinks.notices.delivery import Delivery, Fate
from sinks.notices.notice import Notice
from sinks.notices.outbox import NotifierInUse, Outbox, Stored, new_outbox
from sinks.notices.settings import NoticeSettings, webhook
from sinks.topics.access import Consumer, TopicRecord, open_consumer
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.codec import encode_command, encode_outcome, encode_round
from sinks.wire.position import Position
from strategies.cluster.model import Outcome
from tests.control_topic import command
from tests.notice_builders import MINUTE, T0, a_round
from tests.topic_uris import topic_of

RULES = NoticeRules(frozenset({"blind", "plan", "failed", "silent"}), 2, 5 * MINUTE, 0)
SETTINGS = NoticeSettings(url="http://127.0.0.1:1/")


class Death(BaseException):
    """The process is killed."""


@dataclass
class Fuse:
    """Kills at its `at`-th step; later steps go on. None: never."""

    at: int | None
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise Death


@dataclass
class DyingConsumer:
    inner: Consumer
    fuse: Fuse

    def poll(
        self, max_records: int, timeout_s: float, max_bytes: int | None = None
    ) -> Sequence[TopicRecord]:
        return self.inner.poll(2, timeout_s, max_bytes)

    def commit(self, record: TopicRecord) -> None:
        self.fuse.step()
        self.inner.commit(record)
        self.fuse.step()

    def close(self) -> None:
        self.inner.close()


class DyingOutbox(Outbox):
    def __init__(self, folder: Path, fuse: Fuse) -> None:
        super().__init__(folder)
        self._fuse = fuse

    def write(self, stored: Stored) -> None:
        self._fuse.step()
        super().write(stored)
        self._fuse.step()


class DyingDelivery(Delivery):
    """Keeps what arrives."""

    def __init__(self, fuse: Fuse, arrived: list[Notice]) -> None:
        super().__init__(webhook(SETTINGS), SETTINGS, lambda _: True, lambda _: None)
        self._fuse, self._arrived = fuse, arrived

    def deliver(self, notice: Notice) -> Fate:
        self._fuse.step()
        self._arrived.append(notice)
        self._fuse.step()
        return "delivered"


@dataclass
class Life:
    """Notifiers one after the other on the same folder."""

    folder: Path
    arrived: list[Notice] = field(default_factory=list)

    def live(self, fuse: Fuse) -> None:
        """Until nothing is left to read, or death."""
        with closing(DyingOutbox(self.folder / "state", fuse)) as outbox:
            rounds, outcomes, commands = (
                self._consumer(name, fuse) for name in ("rounds", "outcomes", "commands")
            )
            notifier = Notifier(
                NoticeSources(rounds, outcomes, commands),
                outbox,
                DyingDelivery(fuse, self.arrived),
                RULES,
                clock_ms=lambda: T0,
            )
            while notifier.step(0):
                pass
            assert notifier.waiting == 0

    def _consumer(self, name: str, fuse: Fuse) -> Consumer:
        topic = topic_of(f"file://{self.folder / name}")
        return DyingConsumer(open_consumer(topic, "g", self.folder / "state"), fuse)

    def publish(self) -> None:
        bundle = "t/n/0x00000000_0x80000000"
        moves = [
            command(bundle, "a:1", id=f"c-{n}", issued_at_ms=T0 + n * MINUTE) for n in (3, 4, 5)
        ]
        moves = [replace(one, cluster="prod", expires_at_ms=T0 + 60 * MINUTE) for one in moves]
        with FileTopicWriter(self.folder / "commands") as topic:
            topic.append([encode_command(one) for one in moves])
        codes = ("blind", "blind", "acting", "acting", "acting", "blind", "blind")
        with FileTopicWriter(self.folder / "rounds") as topic:
            topic.append([encode_round(a_round(code, n)) for n, code in enumerate(codes, 1)])
        failed = [
            Outcome(f"c-{n}", "prod", bundle, "failed", "x: y", "a:1", None, 1, T0 + n)
            for n in range(3)
        ]
        with FileTopicWriter(self.folder / "outcomes") as topic:
            topic.append([encode_outcome(one) for one in failed])


def by_topic(notices: Sequence[Notice]) -> list[list[str]]:
    """The ids of notices about states, plans and outcomes, a repeated delivery once. Between two
    topics there is no order.
    """
    kinds = (("blind", "ended"), ("plan",), ("failed",))
    parts = [[one for one in notices if one.kind in part] for part in kinds]
    return [[name for name, _ in groupby(one.id for one in part)] for part in parts]


def expected(folder: Path) -> tuple[list[list[str]], int]:
    """The ids without a death, and the number of steps."""
    life, fuse = Life(folder), Fuse(None)
    life.live(fuse)
    life.publish()
    life.live(fuse)
    return by_topic(life.arrived), fuse.steps


@pytest.mark.heavy
def test_a_death_at_any_step_loses_and_reorders_nothing(tmp_path: Path) -> None:
    wanted, steps = expected(tmp_path / "whole")
    assert [len({*ids}) for ids in wanted] == [len(ids) for ids in wanted] == [3, 3, 3]
    deaths = 0
    for at in range(1, steps + 1):
        life, fuse = Life(tmp_path / str(at)), Fuse(at)
        for published in (False, True):
            if published:
                life.publish()
            try:
                life.live(fuse)
            except Death:
                deaths += 1
                life.live(fuse)
        assert by_topic(life.arrived) == wanted, f"death at step {at}"
        assert len(life.arrived) <= sum(map(len, wanted)) + 1
    assert deaths == steps


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with closing(Outbox(tmp_path)), pytest.raises(NotifierInUse, match="Another notifier uses"):
        Outbox(tmp_path)
    with closing(Outbox(tmp_path)):
        pass


@pytest.mark.parametrize(
    ("topic", "kept"),
    [("file:///rounds", [(3, 7)]), ("kafka://h:1/rounds", [(0, 20), (1, 5), (3, 7)])],
)
def test_places_of_processed_records(topic: str, kept: list[tuple[int, int]]) -> None:
    seen = [Position(topic, 0, 20), Position(topic, 1, 5), Position(topic, 3, 7)]
    stored = new_outbox(b"{}").with_records(seen, b"{}", [])
    assert stored.places[topic] == kept
    assert all(stored.has(position) for position in seen)
    assert not stored.has(Position(topic, 3, 8))
    assert not stored.has(Position(topic, 4, 0))
    assert not stored.has(Position("another", 0, 0))
    assert stored.has(Position(topic, 2, 0)) == topic.startswith("file")
