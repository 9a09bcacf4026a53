"""What topics do on every kind of server, outside Spark: what was not committed comes again, a
recording is what was sent, and a killed executor loses nothing.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.open_topics import Consumer, TopicRecord
from sinks.wire.record_decoding import decode_command
from sinks.wire.record_encoding import encode_outcome
from tests.control_topic import TOPICS, Control, outcome
from tests.golden.test_status import Topics as Installation
from tests.lab.test_cli_advise import log
from tests.servers.polling import poll_records
from tests.servers.topic_server import TopicServer
from tests.spark.workshop import uneven
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import recorded
from tools.kills.kill_execute import plan, run

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    ("server", "partitions"),
    [pytest.param("kafka", 1, marks=pytest.mark.essential), ("pulsar", 0)],
    indirect=["server"],
)
def test_what_was_not_committed_comes_again(
    server: TopicServer, partitions: int, opened: Callable[[str], Consumer]
) -> None:
    uri, lines = server.make("consumer", "committed", partitions), uneven(3)
    server.put(uri, lines)
    first = opened(uri)
    records = poll_records(first, 8)
    assert [record.value for record in records] == lines[:8]
    first.commit(records[2])
    assert [record.value for record in poll_records(opened(uri), 3)] == lines[3:6]


@pytest.mark.parametrize("server", ["kafka", "pulsar"], indirect=True)
def test_a_commit_covers_all_partitions_up_to_its_record(
    server: TopicServer, opened: Callable[[str], Consumer]
) -> None:
    uri = server.make("consumer", "several", 4)
    server.put(uri, [line for cluster in "abcdefgh" for line in uneven(2, cluster)])
    first = opened(uri)
    seen: list[TopicRecord] = []
    while len(seen) < 30 and (records := first.poll(10, 1)):
        seen += records
        first.commit(records[-1])
    rest = opened(uri)
    while records := rest.poll(10, 0.5):
        seen += records
    assert sorted(record.value for record in seen) == sorted(server.values(uri))
    assert len({record.position for record in seen}) == len(seen) == 64


@pytest.mark.parametrize(
    ("server", "partitions"), [("kafka", 1), ("pulsar", 0)], indirect=["server"]
)
def test_a_recording_of_a_topic_is_what_was_sent_and_decides_alike(
    server: TopicServer, partitions: int, tmp_path: Path
) -> None:
    uri, lines = server.make("reader", "recorded", partitions), uneven(5)
    server.put(uri, lines)
    done = rebalancer("record", tmp_path / "copy.jsonl", "--topic", uri)
    assert (done.code, (tmp_path / "copy.jsonl").read_bytes().splitlines()) == (
        exit_codes.OK,
        lines,
    )
    copied = rebalancer("replay", tmp_path / "copy.jsonl", "--json")
    live = rebalancer("replay", "--from-topic", uri, "--json")
    assert copied.json["clusters"] == live.json["clusters"]
    assert live.json["records"] == len(lines)


@pytest.mark.parametrize(
    ("server", "partitions"), [("kafka", 1), ("pulsar", 0)], indirect=["server"]
)
def test_a_topic_is_advised_on_as_its_recording(
    server: TopicServer, partitions: int, tmp_path: Path
) -> None:
    uri = server.make("reader", "advised", partitions)
    lines = log(lambda at, minute: 900.0 + minute if at % 4 == 0 else 200.0)
    server.put(uri, lines)
    live = rebalancer("advise", "--json", "--set", f"topics.telemetry={uri}")
    assert live.json == rebalancer("advise", recorded(tmp_path, lines), "--json").json
    assert live.json["brokers"]["needed"]["found"]


@pytest.mark.parametrize(
    ("server", "partitions"), [("kafka", 1), ("pulsar", 0)], indirect=["server"]
)
def test_top_and_export_print_of_topics_what_they_print_of_files(
    server: TopicServer, partitions: int, tmp_path: Path
) -> None:
    files = Installation(tmp_path / "files")
    files.decide(uneven(5))
    applied = outcome(decode_command(files.read("commands")[0]), "applied")
    files.write("outcomes", [encode_outcome(applied)])
    live = Control(tmp_path, {name: server.make("log", name, partitions) for name in TOPICS})
    for name in TOPICS:
        live.write(name, files.read(name))
    tables = (("export", table) for table in ("usage", "moves", "plans", "outcomes"))
    for asked in (("top", "--json"), *tables):
        printed, expected = (
            rebalancer(*asked, *(f"--set=topics.{name}={topics.uri(name)}" for name in TOPICS))
            for topics in (live, files)
        )
        assert (printed.code, printed.out) == (exit_codes.OK, expected.out)
        assert printed.out.count("\n") > 1


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc")
@pytest.mark.parametrize(
    ("server", "partitions", "seed"),
    [("kafka", 2, 3), ("pulsar", 0, 4), ("pulsar", 2, 6)],
    indirect=["server"],
)
def test_three_kills_of_the_executor_apply_nothing_twice_and_lose_nothing(
    server: TopicServer, partitions: int, seed: int, tmp_path: Path
) -> None:
    group = f"kill-{partitions}"
    control = Control(tmp_path, {name: server.make(group, name, partitions) for name in TOPICS})

    result = run(tmp_path, plan(3, seed), control=control)

    assert result.faults == []
    assert result.statuses == {"applied": 9}
