"""Doctor: each check finds what is wrong and says what to do; a failure is exit code 1, a warning
is not.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.credentials import check_signing
from pulsar_rebalancer.doctor.disk_and_topics import (
    check_checkpoint,
)
from sinks.processes import wall_clock_ms
from sinks.topics.addresses import Connections, file_topic_uri
from sinks.topics.kafka.settings import KafkaSettings
from sinks.wire.signing import SigningSettings
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.locks import locked
from streaming.settings import JobSettings
from tests.topic_uris import topics_of
from tests.unit.command_line import rebalancer

ENGINE = EngineSettings()


def job(folder: Path) -> JobSettings:
    topics = {
        name: file_topic_uri(folder / name)
        for name in ("telemetry", "commands", "rounds", "rejected", "outcomes")
    }
    return JobSettings(
        checkpoint=str(folder / "checkpoint"), connections=Connections(topics=topics_of(**topics))
    )


def words(of: JobSettings) -> list[str]:
    """The same settings for a command line."""
    names = ("telemetry", "commands", "rounds", "rejected", "outcomes")
    settings = [
        f"executor.state={Path(of.checkpoint).parent}/executor",
        f"job.checkpoint={of.checkpoint}",
        *(f"topics.{name}={getattr(of.connections.topics, name)}" for name in names),
    ]
    return [word for setting in settings for word in ("--set", setting)]


def test_a_start_that_ended_before_it_wrote_anything_is_no_obstacle(tmp_path: Path) -> None:
    with locked(tmp_path / "checkpoint", timeout_s=0):
        pass

    assert check_checkpoint(job(tmp_path), ENGINE).status == "ok"


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.heavy
def test_servers_that_do_not_answer_are_asked_once(tmp_path: Path) -> None:
    one, other = closed_port(), closed_port()
    places = {
        "telemetry": one,
        "commands": one,
        "rounds": other,
        "rejected": other,
        "outcomes": other,
    }
    given = [
        word
        for name, port in places.items()
        for word in ("--set", f"topics.{name}=kafka://127.0.0.1:{port}/{name}")
    ]

    answer = rebalancer(
        "doctor", "--no-spark-start", "--json", *given, "--set", "kafka.timeout_ms=1000"
    )

    found = {finding["check"]: finding for finding in answer.json["findings"]}
    assert "no answer; check that the broker runs" in found["topic telemetry"]["text"]
    assert found["topic telemetry"]["remedy"] == "correct that, or change topics.telemetry"
    assert found["topic commands"]["text"].endswith("/commands: not checked")
    assert found["topic commands"]["remedy"] == "see the finding about topic telemetry"
    assert "no answer" in found["topic rounds"]["text"], "other servers"
    for check in ("job", "epochs"):
        assert (found[check]["status"], found[check]["remedy"]) == (
            "warn",
            "see the finding about topic rounds",
        )
    assert answer.code == 1


def test_all_is_well_but_for_missing_telemetry(tmp_path: Path) -> None:
    answer = rebalancer("doctor", "--no-spark-start", "--json", *words(job(tmp_path)))

    findings = {finding["check"]: finding["status"] for finding in answer.json["findings"]}
    assert findings.pop("topic telemetry") == "warn"
    spark = {findings.pop("java"), findings.pop("pyspark")}
    assert set(findings.values()) == {"ok"}
    assert answer.code == (0 if spark == {"ok"} else 1)


def test_wrong_settings_are_findings_too(tmp_path: Path) -> None:
    answer = rebalancer("doctor", "--set", "a.b=1", "--set", "round.epoch=0", env={"COLUMNS": "80"})

    assert (answer.code, answer.err) == (1, "")
    assert "spark start" not in answer.words, "it takes a minute, and needs the settings"
    assert "a.b: unknown setting" in answer.words
    assert "round.epoch: must be at least 1" in answer.words
    assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_commands_that_cannot_be_read_leave_the_key_usable(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef")
    (tmp_path / "key").chmod(0o600)
    connections = Connections(
        topics=topics_of(commands="kafka://127.0.0.1:1/commands"),
        kafka=KafkaSettings(timeout_ms=100),
        signing=SigningSettings(str(tmp_path / "key")),
    )
    found = check_signing(connections, wall_clock_ms())
    assert (found.status, found.remedy) == ("warn", "see the finding about topic commands")
