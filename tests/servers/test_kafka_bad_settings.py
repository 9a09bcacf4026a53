"""Settings of Kafka that cannot work, in every command that meets them: one clear line with the
next step, exit code 1, no secret.
"""

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from tests.control_topic import TOPICS, Control, command
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_settings
from tests.unit.command_line import rebalancer
from tests.unit.executor_lives import ONE
from tests.unit.test_collector import REPORT
from tools.processes.set_words import set_words
from tools.servers.jvm import free_ports
from tools.servers.kafka_broker import USER, KafkaBroker

pytestmark = pytest.mark.servers
COMMANDS = {
    "run": ("run", "--drain"),
    "execute": ("execute", "--once"),
    "collect": ("collect",),
    "record": ("record", "{folder}/copy.jsonl"),
    "replay": ("replay", "--from-topic", "{telemetry}"),
}
WRONG = {
    "address": "no answer; check that the broker runs, that host, port and "
    "kafka.security_protocol are those of one of its listeners.*ECONNREFUSED",
    # A broker may hang up before its refusal is read; the sentence about silence names the password
    # too.
    "password": "authentication failed: check kafka.username, the content of "
    "kafka.password_file|with SASL, name and password",
    "topic": "the topic does not exist; create it with: rebalancer topics create",
}


def address(kafka: KafkaBroker, wrong: str) -> str:
    if wrong == "address":
        return f"127.0.0.1:{free_ports(1)[0]}"
    return kafka.address("SASL_PLAINTEXT" if wrong == "password" else "PLAINTEXT")


def login(folder: Path, wrong: str) -> Mapping[str, object]:
    (folder / "password").write_text("not-this-one", "utf-8")
    given = {
        "kafka.security_protocol": "SASL_PLAINTEXT",
        "kafka.username": USER,
        "kafka.password_file": folder / "password",
    }
    return given if wrong == "password" else {}


def test_a_connector_that_cannot_be_downloaded_is_announced_and_named(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    uris = {topic: kafka.topic(f"no-connector-{topic}", 1) for topic in TOPICS}
    settings = {
        **topic_settings(uris),
        "job.checkpoint": tmp_path / "checkpoint",
        "jars.maven_url": f"http://127.0.0.1:{free_ports(1)[0]}",
    }
    empty = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    told = rebalancer("run", "--drain", *set_words(settings), env=empty)
    assert told.code == exit_codes.ERROR
    assert "downloading 4 jars" in told.err
    assert "could not be downloaded" in told.err


@pytest.mark.parametrize("wrong", list(WRONG))
@pytest.mark.parametrize("name", list(COMMANDS))
def test_what_cannot_work_is_one_line(
    kafka: KafkaBroker, balanced: FakePulsar, tmp_path: Path, name: str, wrong: str
) -> None:
    servers = address(kafka, wrong)
    control = Control(tmp_path, {one: f"kafka://{servers}/nowhere-{one}" for one in TOPICS})
    settings = control.settings(
        # That there is no topic is an answer, and may take its time.
        kafka__timeout_ms=10_000 if wrong == "topic" else 2_000,
        pulsar__admin_urls=balanced.admin_urls,
        job__checkpoint=tmp_path / "checkpoint",
    )
    telemetry = control.uri("telemetry")
    words = [word.format(folder=tmp_path, telemetry=telemetry) for word in COMMANDS[name]]

    done = rebalancer(*words, *set_words({**settings, **login(tmp_path, wrong)}))

    assert done.code == exit_codes.ERROR
    # Of those that run for long each line begins with the time.
    lines = [re.sub(r"^\d{4}-\S+Z ", "", line) for line in done.err.splitlines()]
    before = ("settings: ", "starting", "collecting", "c: ")
    errors = [line for line in lines if not line.startswith(before)]
    assert len(errors) == 1, done.err
    assert errors[0].startswith("error: kafka://127.0.0.1:")
    assert re.search(WRONG[wrong], errors[0]), errors[0]
    assert "Traceback" not in done.err
    assert "not-this-one" not in done.words


def test_a_topic_that_is_too_narrow_for_a_report_or_an_outcome_is_told(
    kafka: KafkaBroker, balanced: FakePulsar, tmp_path: Path
) -> None:
    limit = {"telemetry": "5000", "outcomes": "100"}
    stats = next(iter(REPORT["lastStats"].values()))
    wide = {
        f"t/ns/0x{i:08x}_0x{i + 1:08x}": {**stats, "msgRateIn": random.Random(i).random()}
        for i in range(1_000)
    }
    balanced.cluster.report = {**REPORT, "lastStats": wide, "bundles": list(wide)}
    uris = {
        topic: kafka.topic(
            f"too-narrow-{topic}", configs={"max.message.bytes": limit.get(topic, "1000000")}
        )
        for topic in TOPICS
    }
    control = Control(tmp_path, uris)
    given = control.settings(kafka__timeout_ms=5_000, pulsar__admin_urls=balanced.admin_urls)
    control.send(command(ONE, balanced.cluster.brokers[0]))
    told = "the record is larger than the topic allows; raise its max.message.bytes"
    for name, topic in (("collect", "telemetry"), ("execute", "outcomes")):
        done = rebalancer(*COMMANDS[name], *set_words(given))
        assert done.code == exit_codes.ERROR
        assert f" error: {uris[topic]}: {told}" in done.err.splitlines()[-1]
        assert "trying again" not in done.err
