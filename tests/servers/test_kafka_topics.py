"""Kafka topics outside Spark: every kind of security, order, commits, what a broker refuses, and
copies of a topic.
"""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.topics.epochs import histories, next_epoch
from sinks.topics.kafka.settings import KafkaSettings, Mechanism, kafka_access
from sinks.topics.kafka.topic import KafkaTopicConsumer
from sinks.topics.open_topics import open_consumer, open_publisher
from sinks.topics.topic_settings import TopicAccess
from sinks.wire.record_decoding import WireLimits
from strategies.errors import PublishTimeout, SinkError
from tests.servers.polling import poll_records, read_all
from tests.spark.workshop import uneven
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer
from tools.servers.kafka_broker import USER, USER_PASSWORD, KafkaBroker, Listener
from tools.servers.kafka_topics import put, values
from tools.servers.tcp_proxy import last_answer_with_close
from tools.waiting import eventually

pytestmark = pytest.mark.servers
SASL: tuple[Mechanism, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Door:
    listener: Listener
    settings: Callable[[KafkaBroker, Path], KafkaSettings]
    name: str

    def __str__(self) -> str:
        return self.name


PLAIN = KafkaSettings(timeout_ms=30_000)


def plain(kafka: KafkaBroker, folder: Path) -> KafkaSettings:
    return PLAIN


def ssl(kafka: KafkaBroker, folder: Path) -> KafkaSettings:
    return replace(PLAIN, security_protocol="SSL", ca_file=str(kafka.certificates.ca))


def mutual(kafka: KafkaBroker, folder: Path) -> KafkaSettings:
    own = kafka.certificates
    if not own.client_key.exists():
        pytest.skip("openssl made no key for a client")
    return replace(ssl(kafka, folder), cert_file=str(own.client_cert), key_file=str(own.client_key))


def sasl(
    mechanism: Mechanism, *, over_ssl: bool = False, password: str = USER_PASSWORD
) -> Callable[[KafkaBroker, Path], KafkaSettings]:
    def made(kafka: KafkaBroker, folder: Path) -> KafkaSettings:
        (folder / "password").write_text(password + "\n", "utf-8")
        below = ssl(kafka, folder) if over_ssl else plain(kafka, folder)
        return replace(
            below,
            security_protocol="SASL_SSL" if over_ssl else "SASL_PLAINTEXT",
            mechanism=mechanism,
            username=USER,
            password_file=str(folder / "password"),
        )

    return made


DOORS = [
    Door("PLAINTEXT", plain, "plaintext"),
    Door("SSL", ssl, "ssl"),
    Door("MTLS", mutual, "client certificate"),
    *(Door("SASL_PLAINTEXT", sasl(one), one) for one in SASL),
    *(Door("SASL_SSL", sasl(one, over_ssl=True), f"{one} over ssl") for one in SASL),
]


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_records_pass_every_door(kafka: KafkaBroker, tmp_path: Path, door: Door) -> None:
    name = f"door-{door}".replace(" ", "-")
    kafka.topic(name)
    uri, settings = f"kafka://{kafka.address(door.listener)}/{name}", door.settings(kafka, tmp_path)
    with closing(open_publisher(topic_of(uri), TopicAccess(settings))) as publisher:
        publisher.publish("c", b"one")
        publisher.flush()
    access = TopicAccess(settings)
    with closing(open_consumer(topic_of(uri), "g", tmp_path, access=access)) as consumer:
        (record,) = consumer.poll(10, 5)
        consumer.commit(record)
    assert (record.value, record.position) == (b"one", (uri, 0, 0))


def test_a_reader_without_a_group_remembers_no_position(kafka: KafkaBroker, tmp_path: Path) -> None:
    """It commits nothing, and may follow a topic for months."""
    uri = kafka.topic("followed")
    put(uri, uneven(5))
    topic = topic_of(uri)
    alone = KafkaTopicConsumer(topic, None, kafka_access(KafkaSettings()), WireLimits())
    with closing(alone) as one, closing(open_consumer(topic, "g", tmp_path)) as other:
        for consumer in (one, other):
            poll_records(consumer, 20)
        assert (len(one._handed), len(cast(KafkaTopicConsumer, other)._handed)) == (0, 20)


WRONG_LOGIN = r"authentication failed: check kafka\.username"
UNTRUSTED = r"not trusted: check kafka\.ca_file"
SILENT = r"no answer; check that the broker runs.*kafka\.security_protocol"
STRANGE = KafkaSettings(security_protocol="SSL")
WRONG = sasl("SCRAM-SHA-512", password="wrong")


@pytest.mark.parametrize(
    ("door", "error", "sentence"),
    [
        (Door("SASL_PLAINTEXT", WRONG, "password"), SinkError, WRONG_LOGIN),
        (Door("SSL", lambda *_: STRANGE, "trust"), SinkError, UNTRUSTED),
        (Door("MTLS", ssl, "no certificate"), SinkError, rf"{UNTRUSTED}, kafka\.cert_file"),
        (Door("SSL", plain, "protocol"), PublishTimeout, SILENT),
        (Door("SASL_PLAINTEXT", plain, "no login"), PublishTimeout, SILENT),
    ],
    ids=str,
)
def test_a_closed_door_is_told_in_one_line(
    kafka: KafkaBroker, tmp_path: Path, door: Door, error: type[SinkError], sentence: str
) -> None:
    uri = f"kafka://{kafka.address(door.listener)}/never-made"
    settings = replace(
        door.settings(kafka, tmp_path), timeout_ms=3_000 if error is PublishTimeout else 30_000
    )
    with pytest.raises(error, match=sentence) as raised:
        open_consumer(topic_of(uri), "g", tmp_path, access=TopicAccess(settings))
    assert "\n" not in str(raised.value)
    assert "wrong" not in str(raised.value)


@pytest.mark.parametrize("over_ssl", [False, True], ids=["plaintext", "ssl"])
def test_a_refused_login_is_named_though_its_answer_arrives_with_the_end_of_the_connection(
    kafka: KafkaBroker, tmp_path: Path, over_ssl: bool
) -> None:
    listener: Listener = "SASL_SSL" if over_ssl else "SASL_PLAINTEXT"
    made = sasl("SCRAM-SHA-512", over_ssl=over_ssl, password="wrong")(kafka, tmp_path)
    host, port = kafka.address(listener).split(":")
    access = TopicAccess(replace(made, timeout_ms=8_000))
    with last_answer_with_close((host, int(port))) as address:
        topic = topic_of(f"kafka://{address}/never-made")
        with pytest.raises(SinkError, match=WRONG_LOGIN):
            open_consumer(topic, "g", tmp_path, access=access)


def test_partitions_that_are_added_later_are_read_too(kafka: KafkaBroker, tmp_path: Path) -> None:
    uri = kafka.topic("growing")
    put(uri, uneven(2, "a"))
    with closing(open_consumer(topic_of(uri), "workers", tmp_path)) as consumer:
        seen = list(consumer.poll(100, 5))

        def all_came() -> bool:
            seen.extend(consumer.poll(100, 0.5))
            return len(seen) >= 72

        kafka.add_partitions("growing", 5)
        put(uri, [line for cluster in "abcdefgh" for line in uneven(2, cluster)])
        eventually(all_came, 180, "the new partitions stay unread")
    assert len({record.position.partition for record in seen}) > 1
    assert sorted(record.value for record in seen) == sorted(values(uri))


def test_a_record_with_newlines_is_one_line_of_a_recording(kafka: KafkaBroker) -> None:
    uri = kafka.topic("pretty")
    put(uri, [json.dumps({"v": 1, "kind": "note", "cluster": "c"}, indent=1).encode()])
    assert len(read_all(uri)) == 1
    assert rebalancer("replay", "--from-topic", uri).code == exit_codes.OK


def test_epochs_are_read_off_all_partitions_and_of_a_cluster_in_order(kafka: KafkaBroker) -> None:
    rounds, commands = kafka.topic("epochs-rounds", 3), kafka.topic("epochs-commands")
    assert next_epoch((topic_of(rounds), topic_of(commands))) == 1

    with closing(open_publisher(topic_of(rounds))) as publisher:
        for cluster, epoch in zip("abacaba", (1, 1, 2, 5, 1, 2, 2), strict=True):
            publisher.publish(cluster, f'{{"cluster":"{cluster}","epoch":{epoch}}}'.encode())
        publisher.flush()

    assert next_epoch((topic_of(rounds), topic_of(commands))) == 6
    told = {name: (one.newest, one.late) for name, one in histories(topic_of(rounds)).items()}
    assert told == {"a": (2, 1), "b": (2, 0), "c": (5, 0)}
