"""The streaming job on listeners that demand certificates and logins; and secrets show nowhere."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinks.topics.kafka.settings import kafka_access
from tests.control_topic import TOPICS
from tests.replayed import replayed
from tests.servers.job_stories import drain, job_on
from tests.servers.test_kafka_topics import Door, mutual, sasl
from tests.spark.workshop import eager, uneven
from tests.topic_uris import topics_of
from tools.servers.kafka_broker import USER_PASSWORD, KafkaBroker
from tools.servers.kafka_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark]
DOORS = [
    Door("SASL_PLAINTEXT", sasl("PLAIN"), "plain"),
    Door("SASL_SSL", sasl("SCRAM-SHA-256", over_ssl=True), "scram-256-over-ssl"),
    Door("SASL_SSL", sasl("SCRAM-SHA-512", over_ssl=True), "scram-512-over-ssl"),
    Door("MTLS", mutual, "certificate"),
]


# The two logins with SCRAM differ in a name that the same code puts into the same place: the longer
# one stands for both.
@pytest.mark.parametrize(
    "door",
    [pytest.param(one, marks=pytest.mark.slow) if "256" in str(one) else one for one in DOORS],
    ids=str,
)
def test_the_job_passes_every_door(
    spark: SparkSession,
    kafka: KafkaBroker,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    door: Door,
) -> None:
    engine, lines = eager(), uneven(4)
    open_uris = {name: kafka.topic(f"job-{door}-{name}") for name in TOPICS}
    uris = {name: f"kafka://{kafka.address(door.listener)}/job-{door}-{name}" for name in TOPICS}
    put(open_uris["telemetry"], lines)
    job = job_on(topics_of(**uris), tmp_path, kafka=door.settings(kafka, tmp_path))
    drain(spark, job, engine)
    expected = replayed(lines, engine)
    for kind in ("rounds", "commands"):
        assert values(open_uris[kind]) == expected[kind] != []
    checkpoint = (tmp_path / "checkpoint").rglob("*")
    written = [*checkpoint, *tmp_path_factory.getbasetemp().rglob("spark.log")]
    texts = {file: file.read_bytes() for file in written if file.is_file()}
    for secret in (USER_PASSWORD.encode(), b"PRIVATE KEY"):
        assert [file for file, text in texts.items() if secret in text] == []


def test_printed_access_shows_no_secret(kafka: KafkaBroker, tmp_path: Path) -> None:
    settings = sasl("SCRAM-SHA-512", over_ssl=True)(kafka, tmp_path)
    own = kafka.certificates
    cert, key = str(own.client_cert), str(own.client_key)
    access = kafka_access(replace(settings, cert_file=cert, key_file=key))
    for shown in (repr(access), str(access), repr(settings)):
        assert USER_PASSWORD not in shown
        assert "PRIVATE KEY" not in shown
