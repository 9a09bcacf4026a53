"""Doctor as a command: it ends in time, asks nothing that cannot answer, and a failure is exit code
1. What its checks find is in tests/golden.
"""

import base64
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.cluster import check_clocks
from pulsar_rebalancer.doctor.command import examine
from pulsar_rebalancer.doctor.credentials import check_signing
from pulsar_rebalancer.doctor.disk_and_topics import check_checkpoint
from pulsar_rebalancer.doctor.finding import Finding, TimeLimit, ok
from sinks.processes import wall_clock_ms
from sinks.pulsar_api.access import PulsarSettings
from sinks.topics.addresses import Connections, file_topic_uri
from sinks.topics.kafka.settings import KafkaSettings
from sinks.wire.signing import SigningSettings
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.locks import locked
from streaming.settings import JobSettings
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topics_of
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import REPORT
from tools.processes.set_words import set_words

ENGINE = EngineSettings()


def job(folder: Path) -> JobSettings:
    topics = {name: file_topic_uri(folder / name) for name in TOPICS}
    named = Connections(topics=topics_of(**topics))
    return JobSettings(checkpoint=str(folder / "checkpoint"), connections=named)


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
    places = {name: one if name in ("telemetry", "commands") else other for name in TOPICS}
    given = [
        f"--set=topics.{name}=kafka://127.0.0.1:{port}/{name}" for name, port in places.items()
    ]
    given.append("--set=kafka.timeout_ms=1000")

    answer = rebalancer("doctor", "--no-spark-start", "--json", *given)

    found = {finding["check"]: finding for finding in answer.json["findings"]}
    assert "no answer; check that the broker runs" in found["topic telemetry"]["text"]
    assert found["topic telemetry"]["remedy"] == "correct that, or change topics.telemetry"
    assert found["topic commands"]["text"].endswith("/commands: not checked")
    assert found["topic commands"]["remedy"] == "see the finding about topic telemetry"
    assert "no answer" in found["topic rounds"]["text"], "other servers"
    for check in ("job", "epochs"):
        assert found[check]["status"] == "warn"
        assert found[check]["remedy"] == "see the finding about topic rounds"
    assert answer.code == 1


def test_all_is_well_but_for_missing_telemetry(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    given = Control(tmp_path).settings(job__checkpoint=checkpoint, pulsar__cluster="")
    answer = rebalancer("doctor", "--no-spark-start", "--json", *set_words(given))

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


TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        yield server


def silent_words(server: socket.socket, folder: Path, *more: str) -> list[str]:
    """Every topic on that server, as Pulsar's."""
    port = server.getsockname()[1]
    topics = [f"topics.{name}=pulsar://127.0.0.1:{port}/t/ns/{name}" for name in TOPICS]
    folders = [f"job.checkpoint={folder}/checkpoint", f"executor.state={folder}/executor"]
    times = ["pulsar.deadline_ms=1000"]
    return [f"--set={setting}" for setting in (*topics, *folders, *times, *more)]


def expired(folder: Path) -> str:
    """The setting of a token that expired in 1970."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({}, {"exp": 1})
    ]
    (folder / "token").write_text(".".join([*parts, "signature"]), "utf-8")
    return f"pulsar.token_file={folder / 'token'}"


def test_an_expired_token_is_the_first_finding_and_no_topic_is_asked_with_it(
    silent: socket.socket, tmp_path: Path
) -> None:
    answer = rebalancer(
        "doctor", "--no-spark-start", "--json", *silent_words(silent, tmp_path, expired(tmp_path))
    )
    findings = answer.json["findings"]
    assert [finding["check"] for finding in findings[:2]] == ["settings", "token expiry"]
    assert findings[1]["status"] == "fail"
    topics = {
        finding["check"]: finding for finding in findings if finding["check"].startswith("topic ")
    }
    assert [finding["text"].rpartition(": ")[2] for finding in topics.values()] == [
        "not checked"
    ] * 5
    assert {finding["remedy"] for finding in topics.values()} == {
        "see the finding about token expiry"
    }
    assert answer.code == 1
    with pytest.raises(TimeoutError):
        silent.accept()


def test_a_health_check_with_an_expired_token_asks_nothing(
    silent: socket.socket, tmp_path: Path
) -> None:
    answer = rebalancer(
        "doctor", "--health", "--json", *silent_words(silent, tmp_path, expired(tmp_path))
    )
    assert [finding["check"] for finding in answer.json["findings"]] == ["token expiry"]
    assert answer.code == 1


def test_pulsar_brokers_that_do_not_answer_are_asked_about_one_topic(
    silent: socket.socket, tmp_path: Path
) -> None:
    answer = rebalancer("doctor", "--no-spark-start", "--json", *silent_words(silent, tmp_path))
    found = {finding["check"]: finding for finding in answer.json["findings"]}
    assert ": timeout; check that the brokers run" in found["topic telemetry"]["text"]
    for name in TOPICS[1:]:
        assert found[f"topic {name}"]["text"].endswith(f"/{name}: not checked")
        assert found[f"topic {name}"]["remedy"] == "see the finding about topic telemetry"


def test_a_token_that_brokers_refuse_is_found_by_the_admin_api_and_no_topic_is_asked_with_it(
    silent: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("signed-with-another-key", "utf-8")
    with FakePulsar(Cluster(token="the right one")) as pulsar:
        given = [
            f"pulsar.token_file={tmp_path / 'token'}",
            "pulsar.cluster=c",
            f"pulsar.admin_urls={pulsar.admin_urls}",
        ]
        answer = rebalancer(
            "doctor", "--no-spark-start", "--json", *silent_words(silent, tmp_path, *given)
        )
    found = {finding["check"]: finding for finding in answer.json["findings"]}
    assert "answered 401 to the partitions of t/ns/telemetry" in found["topic telemetry"]["text"]
    assert {found[f"topic {name}"]["remedy"] for name in TOPICS[1:]} == {
        "see the finding about topic telemetry"
    }
    assert "signed-with-another-key" not in answer.out + answer.err
    with pytest.raises(TimeoutError):
        silent.accept()


@pytest.mark.heavy
def test_a_check_that_does_not_end_is_a_finding_and_the_next_one_runs() -> None:
    said: list[str] = []
    limit = TimeLimit(said.append, total_s=30, check_s=1.0, say_every_s=0.4)
    released = threading.Event()

    def stuck() -> Iterator[Finding]:
        yield ok("topic a", "fine")
        released.wait(60)

    found = limit.run("topics", stuck)
    assert [(one.check, one.status, one.text) for one in found[:1]] == [("topic a", "ok", "fine")]
    assert [(one.check, one.status, one.text) for one in found[1:]] == [
        ("topics", "fail", "not finished within 1 s")
    ]
    assert limit.exceeded
    assert said[0] == "doctor: topics: not finished after 0 s; the limit is 1 s"
    assert limit.run("disk", lambda: [ok("disk", "fine")]) == [ok("disk", "fine")]
    released.set()


def test_no_check_begins_when_the_time_of_all_is_over() -> None:
    limit = TimeLimit(print, total_s=0)
    (found,) = limit.run("cluster", lambda: [ok("cluster", "fine")], "warn")
    assert found.check == "cluster"
    assert found.status == "warn"
    assert found.text == "not checked: doctor's limit of 0 s is reached"
    assert not limit.exceeded


def test_what_a_check_raises_is_raised() -> None:
    def broken() -> list[Finding]:
        raise KeyError("broker")

    with pytest.raises(KeyError):
        TimeLimit(print).run("cluster", broken)


@pytest.mark.heavy  # five seconds, which is enough for all other checks on a busy machine
def test_a_cluster_that_does_not_answer_takes_no_longer_than_its_part_of_the_time(
    silent: socket.socket, tmp_path: Path
) -> None:
    places = Control(tmp_path).settings(
        job__checkpoint=tmp_path / "checkpoint",
        pulsar__admin_urls=f"http://127.0.0.1:{silent.getsockname()[1]}",
        pulsar__deadline_ms=60_000,
    )
    given = [f"{key}={value}" for key, value in places.items()]
    limit = TimeLimit(print, check_s=5.0)
    findings = examine(None, given, spark_start=False, shadow=False, limit=limit)
    assert (findings[-2].check, findings[-2].status) == ("executor", "ok")
    assert findings[-1].check == "cluster"
    assert findings[-1].status == "fail"
    assert findings[-1].text == "not finished within 5 s"
    assert limit.exceeded


def test_the_process_ends_although_threads_wait() -> None:
    program = """
import threading, time
from pulsar_rebalancer.cli.errors import abandon
threading.Thread(target=time.sleep, args=(600,)).start()
print("the table")
abandon(1)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "the table\n", "")


#: No rival of ours: neither sheds nor splits.
QUIET = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "statsUpdateFrequencyInSecs": "60",
}


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT, configuration=dict(QUIET))) as running:
        yield running


def test_clocks_that_differ(pulsar: FakePulsar) -> None:
    asked = PulsarSettings("c", pulsar.admin_urls)
    assert check_clocks(pulsar.cluster.brokers, asked).status == "ok"
    found = check_clocks(pulsar.cluster.brokers, asked, lambda: time.time() + 60)
    assert found.status == "warn"
    assert "differs by" in found.text


@pytest.mark.heavy
def test_doctor_ends_with_1_when_the_cluster_has_a_rival(pulsar: FakePulsar) -> None:
    given = set_words({"pulsar.cluster": "c", "pulsar.admin_urls": pulsar.admin_urls})
    words = ["doctor", "--no-spark-start", "--json", *given]
    told = {finding["check"]: finding["status"] for finding in rebalancer(*words).json["findings"]}
    assert told["built-in shedding"] == "ok"
    pulsar.cluster.configuration["loadBalancerSheddingEnabled"] = "true"
    assert rebalancer(*words).code == 1
