"""Pulsar topics outside Spark, on real brokers: what was not acknowledged comes again, all that is
there is read, errors are sentences.
"""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.files.topic import TopicRecord
from sinks.topics.open_topics import Consumer, Publisher, open_consumer, open_publisher
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.topic_settings import TopicAccess, parse_topic
from strategies.errors import PublishRejected, PublishTimeout, SinkError
from streaming.sources.pulsar_plan import PulsarPlanner
from tests.control_topic import TOPICS
from tests.servers.polling import plan_records, poll_records, read_all
from tests.spark.workshop import uneven
from tests.topic_uris import topic_of, topic_settings
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.jvm import free_ports
from tools.servers.pulsar_cluster import PulsarCluster, token_of
from tools.servers.pulsar_topics import put

pytestmark = pytest.mark.servers
HASTY = TopicAccess(pulsar=PulsarSettings(deadline_ms=2_000, connect_timeout_ms=1_000))


def test_of_an_entry_of_several_messages_all_come_again(
    pulsar: PulsarCluster, opened: Callable[[str], Consumer]
) -> None:
    """The broker counts entries; whoever carries out commands remembers for himself."""
    uri, lines = pulsar.topic("topics/consumer/entries"), uneven(3)
    put(pulsar, uri, lines, batch=4)
    first = opened(uri)
    records = poll_records(first, 6)
    first.commit(records[5])
    assert [record.value for record in poll_records(opened(uri), 3)] == lines[4:7]


def test_a_batch_of_more_messages_than_there_are_numbers_is_read_in_order(
    pulsar: PulsarCluster, opened: Callable[[str], Consumer]
) -> None:
    uri, lines = pulsar.topic("topics/consumer/wide"), [b"%d" % number for number in range(5_000)]
    put(pulsar, uri, lines, batch=5_000)
    read = read_all(uri)
    assert [record.value for record in read] == lines
    offsets = [record.position.offset for record in read]
    assert offsets == sorted(offsets)
    assert len({offset >> 12 for offset in offsets}) == 1, "one entry"

    consumer, polled = opened(uri), list[TopicRecord]()
    while len(polled) < len(lines):
        polled += consumer.poll(1_000, 5)
        consumer.commit(polled[-1])
    assert [record.value for record in polled] == lines

    link = PulsarLink(parse_topic(uri), PulsarSettings())
    with closing(PulsarPlanner(link, 2**30, fail_on_loss=True)) as planner:
        middle = plan_records(planner, planner.begin("earliest"), 4_500)
        end = plan_records(planner, middle, 500)
        assert middle["0"][:2] == end["0"][:2], "a micro-batch may end inside an entry"
        assert planner.advance(end, 4_500) == end


def test_a_second_process_of_a_group_is_turned_away(
    pulsar: PulsarCluster, opened: Callable[[str], Consumer], tmp_path: Path
) -> None:
    uri = pulsar.topic("topics/consumer/busy")
    opened(uri)
    with pytest.raises(SinkError, match=r"another process"):
        open_consumer(topic_of(uri), "workers", tmp_path, access=HASTY)


def test_records_of_one_key_keep_their_order_and_partition(pulsar: PulsarCluster) -> None:
    uri = pulsar.topic("topics/publisher/keys", 4)
    with closing(open_publisher(topic_of(uri))) as publisher:
        for number in range(300):
            publisher.publish(f"cluster-{number % 7}", b"%d" % number)
        publisher.flush()
    homes = {key: set[int]() for key in range(7)}
    numbers = {key: list[int]() for key in range(7)}
    for record in read_all(uri):
        key = int(record.value) % 7
        homes[key].add(record.position.partition)
        numbers[key].append(int(record.value))
    assert numbers == {key: list(range(key, 300, 7)) for key in range(7)}
    assert {len(partitions) for partitions in homes.values()} == {1}
    assert len({partition for found in homes.values() for partition in found}) > 1


def test_an_empty_topic_is_read_at_once(pulsar: PulsarCluster) -> None:
    assert read_all(pulsar.topic("topics/reader/empty", 2)) == []


def test_a_record_that_is_too_large_is_refused_with_the_next_step(pulsar: PulsarCluster) -> None:
    noise = json.dumps([str(hash((number, "noise"))) for number in range(700_000)]).encode()
    with closing(open_publisher(topic_of(pulsar.topic("topics/publisher/large")))) as publisher:
        with pytest.raises(PublishRejected, match=r"maxMessageSize"):
            publish(publisher, noise)
        publish(publisher, b"{}")


def test_a_missing_namespace_and_a_silent_port_are_told(
    pulsar: PulsarCluster, tmp_path: Path
) -> None:
    told = "nowhere/at/all: the topic or its namespace does not exist"
    with pytest.raises(SinkError, match=told):
        open_publisher(topic_of(f"{pulsar.service_url}/nowhere/at/all"))
    silent = topic_of(f"pulsar://127.0.0.1:{free_ports(1)[0]}/t/n/x")
    with pytest.raises(PublishTimeout, match=r"does not accept connections"):
        open_consumer(silent, "g", tmp_path, access=HASTY)


def test_whoever_shows_the_wrong_token_is_told_once_and_the_token_nowhere(
    guarded_pulsar: PulsarCluster, tmp_path: Path
) -> None:
    """The job says so before Spark starts."""
    uris = {name: guarded_pulsar.topic(f"topics/guarded/{name}") for name in TOPICS}
    put(guarded_pulsar, uris["telemetry"], uneven(2))
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(token_of("admin"))
    wrong.write_text(token_of("admin")[:-6] + "AAAAAA")
    replaying = ("replay", "--from-topic", uris["telemetry"])
    done = rebalancer(*replaying, "--json", "--set", f"pulsar.token_file={right}")
    assert (done.code, done.json["records"]) == (exit_codes.OK, len(uneven(2)))
    given = {
        **topic_settings(uris),
        "pulsar.token_file": wrong,
        "pulsar.deadline_ms": 5_000,
        "job.checkpoint": tmp_path / "checkpoint",
    }
    for words in (replaying, ("run", "--drain")):
        failed = rebalancer(*words, *set_words(given))
        assert (failed.code, failed.out) == (exit_codes.ERROR, "")
        assert (failed.err.count("error:"), "pulsar.token_file" in failed.err) == (1, True)
        assert wrong.read_text() not in failed.err


def publish(publisher: Publisher, value: bytes) -> None:
    publisher.publish("c", value)
    publisher.flush()
