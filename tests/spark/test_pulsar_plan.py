"""Where micro-batches of a Pulsar topic end and what their tasks read, on a topic that is a few
lists; no Java, no broker.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from sinks.topics.files.topic import TopicRecord
from sinks.topics.pulsar.partition import MessageId, PartitionReader, PulsarLink, Read
from sinks.wire.record_decoding import Position
from strategies.errors import PublishTimeout, SinkError
from streaming.sources.pulsar_plan import Offsets, PulsarPlanner, ReadPlan, kept_begin

WIDE = 10**9


@dataclass
class Topic:
    """Partition → message ids; every message has `size` bytes and was published at the ledger's
    number.
    """

    messages: dict[str, list[MessageId]]
    size: int = 100
    timeout_s: float = 0.0
    served: bool = True
    topic: str = "pulsar://h:1/t/n/telemetry"
    opened: list[str] = field(default_factory=list)

    def partitions(self) -> list[str]:
        return list(self.messages)

    def last(self, partition: str) -> MessageId | None:
        return self.messages[partition][-1] if self.messages[partition] else None

    def holds(self, partition: str, id_: MessageId) -> bool:
        return id_ in self.messages[partition]

    def since(self, partition: str, ms: int) -> MessageId | None:
        return next((id_ for id_ in self.messages[partition] if id_.ledger >= ms), None)

    def close(self) -> None:
        self.opened.append("closed")

    def planner(self, max_bytes: int = WIDE, *, fail_on_loss: bool = True) -> PulsarPlanner:
        return PulsarPlanner(
            cast(PulsarLink, self),
            max_bytes,
            fail_on_loss=fail_on_loss,
            reader=cast(type[PartitionReader], Partition),
        )


class Partition:
    def __init__(self, topic: Topic, number: int, name: str, after: MessageId | None) -> None:
        self._topic, self._number, self._name, self.at = topic, number, name, after
        topic.opened.append(name)

    @property
    def connected(self) -> bool:
        return self._topic.served

    def read(self, timeout_s: float) -> Read | None:
        found = next(self._rest(), None)
        if found is None:
            return None
        self.at = found
        position = Position(self._topic.topic, self._number, found.offset)
        return Read(found, TopicRecord(position, b"", self._topic.size))

    def more(self) -> bool:
        return any(True for _ in self._rest())

    def close(self) -> None:
        pass

    def _rest(self) -> Iterator[MessageId]:
        return (id_ for id_ in self._topic.messages[self._name] if self.at is None or id_ > self.at)


def ids(ledger: int, entries: int, batch: int = 0) -> list[MessageId]:
    """So many entries of `batch` messages; 0 = entries that are one message."""
    return [
        MessageId(ledger, entry, place)
        for entry in range(entries)
        for place in (range(batch) if batch else [-1])
    ]


def read(topic: Topic, plans: list[ReadPlan]) -> list[MessageId]:
    """What the tasks find, one after the other; each finds as many as it was told."""
    found: list[MessageId] = []
    for plan in plans:
        part = [
            id_
            for id_ in topic.messages[plan.name]
            if (plan.after is None or id_ > plan.after) and id_ <= plan.end
        ]
        assert len(part) == plan.records
        found += part
    return found


def batches(topic: Topic, planner: PulsarPlanner, most: int) -> list[list[MessageId]]:
    """Everything, micro-batch by micro-batch; each is read as well by somebody who knows only its
    two offsets.
    """
    found: list[list[MessageId]] = []
    start = planner.begin("earliest")
    while (end := planner.advance(start, most)) != start:
        found.append(read(topic, list(planner.slices(start, end, 4))))
        assert read(topic, list(topic.planner().slices(start, end, 4))) == found[-1]
        start = end
    return found


def test_batches_hold_so_many_records_and_end_in_the_middle_of_entries() -> None:
    topic = Topic({"t": [*ids(3, 4, batch=7), *ids(9, 5), *ids(20, 1, batch=3)]})
    found = batches(topic, topic.planner(), 5)
    assert [len(batch) for batch in found] == [5, 5, 5, 5, 5, 5, 5, 1]
    assert list(itertools.chain(*found)) == topic.messages["t"]
    assert topic.opened == ["t"]


def test_every_partition_is_read_in_order_and_once() -> None:
    lists = [ids(number + 1, 40 * number, batch=number % 2) for number in range(4)]
    topic = Topic({f"t-partition-{number}": some for number, some in enumerate(lists)})
    found = list(itertools.chain(*batches(topic, topic.planner(), 30)))
    for messages in topic.messages.values():
        assert [id_ for id_ in found if id_ in messages] == messages
    assert len(found) == len(set(found)) == 240


def test_bytes_end_a_batch_too_but_one_record_always_passes() -> None:
    topic = Topic({"t": ids(1, 5)}, size=100)
    assert [len(batch) for batch in batches(topic, topic.planner(250), 10)] == [3, 2]
    assert [len(batch) for batch in batches(topic, topic.planner(1), 10)] == [1] * 5


def test_what_is_large_is_read_by_several_tasks() -> None:
    topic = Topic({"t": ids(1, 30)}, size=200_000)
    planner = topic.planner()
    plans = list(planner.slices({}, planner.advance({}, 30), 4))
    assert [plan.records for plan in plans] == [7, 8, 7, 8]
    assert read(topic, plans) == topic.messages["t"]


def test_what_comes_after_the_present_end_is_left_alone() -> None:
    topic = Topic({"a": ids(1, 3), "b": []})
    planner = topic.planner()
    planner.stop_at_present_end()
    topic.messages["a"] += ids(2, 3)
    topic.messages["b"] += ids(3, 3)
    first = planner.advance({}, 10)
    assert first == {"0": [1, 2, -1, 3]}
    assert planner.advance(first, 10) == first


@pytest.mark.parametrize(
    ("start", "begun"),
    [("earliest", {}), ("latest", {"0": [4, 1, -1, 0]}), ("4", {"0": [4, -1, -1, 0]})],
)
def test_a_new_checkpoint_begins_where_it_is_told(start: str, begun: Offsets) -> None:
    assert Topic({"t": [*ids(3, 2), *ids(4, 2)]}).planner().begin(start) == begun


def test_the_first_micro_batch_is_repeated_from_where_it_began(tmp_path: Path) -> None:
    """Spark asks for the begin again, and messages have arrived since."""
    topic = Topic({"t": ids(3, 2), "silent": ids(3, 2)})

    def begin() -> Offsets:
        return kept_begin(tmp_path / "begin", lambda: topic.planner().begin("latest"))

    start = begin()
    topic.messages["t"] += ids(4, 3)
    end = topic.planner().advance(start, 10)
    for name in topic.messages:
        topic.messages[name] += ids(5, 2)
    assert read(topic, list(topic.planner().slices(begin(), end, 4))) == ids(4, 3)


def test_the_end_is_told_as_long_as_all_was_read() -> None:
    topic = Topic({"t": ids(1, 3)})
    planner = topic.planner()
    end = planner.advance({}, 10)
    assert planner.end() == end
    topic.messages["t"] += ids(2, 1)
    assert planner.end() is None


def test_a_restart_that_misses_the_last_message_stops_unless_told_to_go_on() -> None:
    topic = Topic({"t": ids(1, 6)})
    start = topic.planner().advance({}, 3)
    topic.messages["t"] = ids(2, 4)
    told = r"deleted, perhaps before the job read them.*job\.fail_on_data_loss=false"
    with pytest.raises(SinkError, match=told):
        topic.planner().advance(start, 10)
    assert topic.planner(fail_on_loss=False).advance(start, 10) == {"0": [2, 3, -1, 7]}


def test_a_cluster_that_was_made_anew_begins_with_small_ids() -> None:
    topic = Topic({"t": ids(9, 3)})
    start = topic.planner().advance({}, 3)
    topic.messages["t"] = ids(1, 4)
    planner = topic.planner(fail_on_loss=False)
    end = planner.advance(start, 10)
    assert read(topic, list(planner.slices(start, end, 1))) == ids(1, 4)
    assert planner.advance(end, 10) == end
    assert topic.opened == ["t"] * 2


def test_a_topic_that_nobody_serves_is_told() -> None:
    topic = Topic({"t": ids(1, 3)})
    planner = topic.planner()
    end = planner.advance({}, 10)
    topic.served, topic.timeout_s = False, -1.0
    with pytest.raises(PublishTimeout, match=r"no broker serves it any more"):
        planner.advance(end, 10)
