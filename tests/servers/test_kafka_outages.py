"""A broker that is away for a while, and topics that are gone, as the processes outside Spark bear
them: nothing lost, one clear line.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.open_topics import Publisher, open_publisher
from sinks.topics.topic_settings import TopicAccess
from strategies.errors import PublishTimeout, SinkError
from tests.control_topic import TOPICS, Control, command
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_of
from tests.unit.executor_lives import BUNDLES
from tools.processes.process import Process
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.kafka_topics import put, values
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.faults]
GONE = "the topic does not exist; create it with: rebalancer topics create"
BEGINS, ENDS = "trying again for up to 600 s", "the servers of the topics answer again after"
#: What each program says once it is at work.
_READY = {"run": "batch", "collect": "pass 1", "record": "records", "execute": "applying"}


def settings_of(control: Control, balanced: FakePulsar, **more: object) -> dict[str, object]:
    """What the programs have in common, with a pass every second."""
    return control.settings(
        pulsar__admin_urls=balanced.admin_urls, collector__pass_interval_ms=1_000, **more
    )


@contextmanager
def at_work(folder: Path, settings: dict[str, object], *names: str) -> Iterator[Sequence[Process]]:
    """Programs, each with a log of its own."""
    words = {"record": (folder / "copy.jsonl", "--follow"), "execute": ("--apply",)}
    with ExitStack() as stack:
        everybody = [
            stack.enter_context(
                Process(folder / f"{name}.log", name, *words.get(name, ()), settings=settings)
            )
            for name in names
        ]
        for name, process in zip(names, everybody, strict=True):
            process.wait_for(_READY[name])
        yield everybody


def carry_out(number: int, control: Control, balanced: FakePulsar, anybody: Process) -> None:
    """The executor carries out one more command."""
    source, destination = balanced.cluster.brokers[:2]
    control.send(command(BUNDLES[number], source, destination, epoch=1))
    anybody.wait_until(lambda: len(control.outcomes()) == number + 1)
    assert control.outcomes()[-1].status == "applied"


def nothing_was_lost(control: Control, everybody: Sequence[Process]) -> None:
    passes = sorted(set(sweeps(control)))
    assert passes == list(range(1, len(passes) + 1)), "a pass was lost"
    assert [process.said for process in everybody if "Traceback" in process.said] == []


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
def test_processes_outside_spark_outlast_the_broker_and_name_a_topic_that_is_gone(
    own_kafka: KafkaBroker, balanced: FakePulsar, tmp_path: Path, seconds: float
) -> None:
    control = Control(tmp_path, {name: own_kafka.topic(f"out-{name}") for name in TOPICS})
    settings = settings_of(control, balanced, kafka__timeout_ms=5_000)
    with at_work(tmp_path, settings, "collect", "record", "execute") as everybody:
        collect, record, execute = everybody
        carry_out(0, control, balanced, collect)

        own_kafka.server.kill()
        gone = time.monotonic()
        for process in everybody:
            process.wait_for(BEGINS)
        collect.wait_until(lambda: time.monotonic() - gone >= seconds)
        own_kafka.server.start()

        carry_out(1, control, balanced, collect)
        for process in everybody:
            process.wait_for(ENDS)
        last = sweeps(control)[-1]
        collect.wait_until(lambda: sweeps(control)[-1] > last + 1)
        nothing_was_lost(control, everybody)

        kinds = [json.loads(value)["kind"] for value in values(control.uri("telemetry"))]
        assert kinds.count("outcome") == 2
        eventually(lambda: record.said.endswith(" records\n"), 180, "the recording does not go on")
        own_kafka.delete_topic("out-telemetry")
        own_kafka.delete_topic("out-commands")
        gone_topics = {collect: "telemetry", record: "telemetry", execute: "commands"}
        for process, topic in gone_topics.items():
            assert process.ended() == 1
            assert f"error: {control.uri(topic)}: {GONE}" in process.last_line
            assert "Traceback" not in process.said
        assert len((tmp_path / "copy.jsonl").read_bytes().splitlines()) >= 2, (
            "what was recorded until then is kept"
        )


def test_a_broker_that_answers_nothing_is_named_while_the_clients_still_wait(
    own_kafka: KafkaBroker, balanced: FakePulsar, tmp_path: Path
) -> None:
    control = Control(tmp_path, {name: own_kafka.topic(f"mute-{name}") for name in TOPICS})
    # What a client of these processes says by itself comes after four minutes.
    settings = settings_of(control, balanced, kafka__timeout_ms=240_000)
    with at_work(tmp_path, settings, "collect", "record", "execute") as everybody:
        own_kafka.server.pause()
        for process in everybody:
            process.wait_for("no answer; check that the broker runs")
        own_kafka.server.resume()
        for process in everybody:
            process.wait_for(ENDS)
        last = sweeps(control)[-1]
        everybody[0].wait_until(lambda: sweeps(control)[-1] > last + 1)
        nothing_was_lost(control, everybody)


def sweeps(control: Control) -> list[int]:
    """Numbers of the collector's passes in the order of the topic."""
    records = (json.loads(value) for value in control.read("telemetry"))
    return [record["sweep"] for record in records if record["kind"] == "sweep"]


def test_before_the_first_publish_a_dead_broker_is_an_outage_and_a_deleted_topic_is_missing(
    own_kafka: KafkaBroker,
) -> None:
    hasty = TopicAccess(KafkaSettings(timeout_ms=2_000))
    with closing(open_publisher(topic_of(own_kafka.topic("deleted")), hasty)) as publisher:
        own_kafka.delete_topic("deleted")
        with pytest.raises(SinkError, match="the topic does not exist"):
            publisher.publish("c", b"{}")
    with closing(open_publisher(topic_of(own_kafka.topic("kept")), hasty)) as publisher:
        own_kafka.server.kill()
        with pytest.raises(PublishTimeout) as raised:
            publisher.publish("c", b"{}")
    assert "the topic does not exist" not in str(raised.value)


def test_a_flush_ends_and_can_be_repeated_if_only_the_first_of_two_batches_was_sent(
    own_kafka: KafkaBroker,
) -> None:
    uri = own_kafka.topic("batches")
    put(uri, [b"{}"])  # the broker's first answers take longest
    hasty = TopicAccess(KafkaSettings(timeout_ms=5_000))
    with closing(open_publisher(topic_of(uri), hasty)) as publisher:
        publisher.publish("c", b"{}")
        publisher.flush()
        own_kafka.server.pause()
        try:
            publisher.publish("c", b"1")
            time.sleep(1)  # longer than the client waits for more records: they are two batches
            publisher.publish("c", b"2")
            assert isinstance(error_of_flush(publisher), PublishTimeout)
        finally:
            own_kafka.server.resume()
        eventually(lambda: delivered(publisher, [b"1", b"2"]))
    assert {b"1", b"2"} <= set(values(uri))


def error_of_flush(publisher: Publisher) -> SinkError | None:
    """What a flush raises; AssertionError if it does not end."""
    raised: list[SinkError] = []

    def flush() -> None:
        try:
            publisher.flush()
        except SinkError as error:
            raised.append(error)

    flushing = Thread(target=flush, daemon=True)
    flushing.start()
    flushing.join(120)
    assert not flushing.is_alive(), "the flush does not end"
    return raised[0] if raised else None


def delivered(publisher: Publisher, records: Sequence[bytes]) -> bool:
    try:
        for record in records:
            publisher.publish("c", record)
        publisher.flush()
    except PublishTimeout:
        return False
    return True
