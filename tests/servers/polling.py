"""Reads a number of records from a server: one poll, like one plan of a micro-batch, returns what
has arrived, which may be less than what exists.
"""

from contextlib import closing

from sinks.topics.open_topics import Consumer, TopicRecord, open_reader
from sinks.topics.topic_settings import TopicUri
from streaming.sources.pulsar_plan import Offsets, PulsarPlanner
from tests.topic_uris import topic_of
from tools.waiting import eventually


def read_all(uri: str | TopicUri) -> list[TopicRecord]:
    """All that is there, by a reader of ours."""
    with closing(open_reader(topic_of(uri))) as reader:
        return [record for records in iter(reader.read, []) for record in records]


def poll_records(consumer: Consumer, count: int) -> list[TopicRecord]:
    """The next `count` records. AssertionError if they do not come in time."""
    polled: list[TopicRecord] = []

    def all_came() -> bool:
        polled.extend(consumer.poll(count - len(polled), 0.5))
        return len(polled) == count

    eventually(all_came, 60, lambda: f"{len(polled)} of {count} records came")
    return polled


def plan_records(planner: PulsarPlanner, start: Offsets, count: int) -> Offsets:
    """The offset after the next `count` records of a topic with one partition."""
    ends = [start]

    def planned() -> int:
        return int(ends[-1]["0"][-1] if ends[-1] else 0)

    end = planned() + count

    def all_came() -> bool:
        ends.append(planner.advance(ends[-1], end - planned()))
        return planned() == end

    eventually(all_came, 60, lambda: f"the plan ends after {planned()} of {end} records")
    return ends[-1]
