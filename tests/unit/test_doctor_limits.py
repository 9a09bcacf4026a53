"""`doctor` ends in time, whatever does not answer, and asks nothing that cannot answer."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.command import examine
from pulsar_rebalancer.doctor.finding import Finding, TimeLimit, ok
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import rebalancer

TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        yield server


def words(server: socket.socket, folder: Path, *more: str) -> list[str]:
    """Every topic on that server, as Pulsar's."""
    port = server.getsockname()[1]
    topics = [f"topics.{name}=pulsar://127.0.0.1:{port}/t/ns/{name}" for name in TOPICS]
    folders = [f"job.checkpoint={folder}/checkpoint", f"executor.state={folder}/executor"]
    times = ["pulsar.deadline_ms=1000"]
    return [word for setting in (*topics, *folders, *times, *more) for word in ("--set", setting)]


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
        "doctor", "--no-spark-start", "--json", *words(silent, tmp_path, expired(tmp_path))
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
    answer = rebalancer("doctor", "--health", "--json", *words(silent, tmp_path, expired(tmp_path)))
    assert ([finding["check"] for finding in answer.json["findings"]], answer.code) == (
        ["token expiry"],
        1,
    )


def test_pulsar_brokers_that_do_not_answer_are_asked_about_one_topic(
    silent: socket.socket, tmp_path: Path
) -> None:
    answer = rebalancer("doctor", "--no-spark-start", "--json", *words(silent, tmp_path))
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
            "doctor", "--no-spark-start", "--json", *words(silent, tmp_path, *given)
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
    assert (found.check, found.status, found.text) == (
        "cluster",
        "warn",
        "not checked: doctor's limit of 0 s is reached",
    )
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
    places = {f"topics.{name}": f"file://{tmp_path}/{name}" for name in TOPICS}
    places |= {
        "job.checkpoint": f"{tmp_path}/checkpoint",
        "executor.state": f"{tmp_path}/executor",
        "pulsar.cluster": "c",
    }
    given = [f"{key}={value}" for key, value in places.items()]
    given += [
        f"pulsar.admin_urls=http://127.0.0.1:{silent.getsockname()[1]}",
        "pulsar.deadline_ms=60000",
    ]
    limit = TimeLimit(print, check_s=5.0)
    findings = examine(None, given, spark_start=False, shadow=False, limit=limit)
    assert (findings[-2].check, findings[-2].status) == ("executor", "ok")
    assert (findings[-1].check, findings[-1].status, findings[-1].text) == (
        "cluster",
        "fail",
        "not finished within 5 s",
    )
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
