"""Doctor as a command: it ends in time, and its exit code. Findings are in tests/golden."""

import base64
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import check_clocks
from pulsar_rebalancer.doctor.command import TimeLimit, examine
from pulsar_rebalancer.doctor.disk_and_topics import check_checkpoint
from pulsar_rebalancer.doctor.finding import Finding, ok
from pulsar_rebalancer.doctor.signing_keys_and_tokens import check_signing
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.topic_settings import Connections
from sinks.wire.signing_keys import SigningSettings
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import locked
from streaming.settings import JobSettings
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topics_of
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words

TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")


def examined(*words: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """Exit code, findings by their checks, and all that is printed."""
    answer = rebalancer("doctor", "--json", *words)
    findings = {finding["check"]: finding for finding in answer.json["findings"]}
    return answer.code, findings, answer.out + answer.err


def test_a_start_that_ended_before_it_wrote_anything_is_no_obstacle(tmp_path: Path) -> None:
    with locked(tmp_path / "checkpoint", timeout_s=0):
        pass
    job = JobSettings(checkpoint=f"{tmp_path}/checkpoint")
    assert check_checkpoint(job, EngineSettings()).status == "ok"


@pytest.mark.heavy
def test_servers_that_do_not_answer_are_asked_once() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        ports = [server.getsockname()[1] for server in (one, other)]
    first = ("telemetry", "commands")
    given = {
        f"topics.{name}": f"kafka://127.0.0.1:{ports[name not in first]}/{name}" for name in TOPICS
    }

    code, found, _ = examined("--no-spark-start", *set_words(given | {"kafka.timeout_ms": 1000}))

    assert "no answer; check that the broker runs" in found["topic telemetry"]["text"]
    assert found["topic telemetry"]["remedy"] == "correct that, or change topics.telemetry"
    assert found["topic commands"]["text"].endswith("/commands: not checked")
    assert found["topic commands"]["remedy"] == "see the finding about topic telemetry"
    assert "no answer" in found["topic rounds"]["text"], "other servers"
    for check in ("job", "epochs"):
        assert found[check]["status"] == "warn"
        assert found[check]["remedy"] == "see the finding about topic rounds"
    assert code == 1


def test_all_is_well_but_for_missing_telemetry(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    given = Control(tmp_path).settings(job__checkpoint=checkpoint, pulsar__cluster="")
    code, found, _ = examined("--no-spark-start", *set_words(given))
    findings = {check: finding["status"] for check, finding in found.items()}
    assert findings.pop("topic telemetry") == "warn"
    spark = {findings.pop("java"), findings.pop("pyspark")}
    assert set(findings.values()) == {"ok"}
    assert code == (0 if spark == {"ok"} else 1)


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
    signing, kafka = SigningSettings(str(tmp_path / "key")), KafkaSettings(timeout_ms=100)
    topics = topics_of(commands="kafka://127.0.0.1:1/commands")
    found = check_signing(Connections(topics, kafka=kafka, signing=signing), wall_clock_ms())
    assert (found.status, found.remedy) == ("warn", "see the finding about topic commands")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        yield server


def silent_words(server: socket.socket, folder: Path, **more: object) -> list[str]:
    """Every topic on that server, as Pulsar's; `more`: settings of `pulsar`."""
    port = server.getsockname()[1]
    topics = {f"topics.{name}": f"pulsar://127.0.0.1:{port}/t/ns/{name}" for name in TOPICS}
    folders = {"job.checkpoint": folder / "checkpoint", "executor.state": folder / "executor"}
    pulsar = {f"pulsar.{name}": value for name, value in {"deadline_ms": 1000, **more}.items()}
    return set_words(topics | folders | pulsar)


def token_file(folder: Path, token: str) -> Path:
    (folder / "token").write_text(token, "utf-8")
    return folder / "token"


def test_an_expired_token_is_the_first_finding_and_no_topic_is_asked_with_it(
    silent: socket.socket, tmp_path: Path
) -> None:
    """It expired in 1970. A health check asks nothing at all."""
    parts = [base64.urlsafe_b64encode(part).decode() for part in (b"{}", b'{"exp": 1}')]
    file = token_file(tmp_path, ".".join([*parts, "signature"]))
    words = silent_words(silent, tmp_path, token_file=file)
    code, found, _ = examined("--no-spark-start", *words)
    assert [*found][:2] == ["settings", "token expiry"]
    assert (code, found["token expiry"]["status"]) == (1, "fail")
    for name in TOPICS:
        assert found[f"topic {name}"]["text"].endswith(": not checked")
        assert found[f"topic {name}"]["remedy"] == "see the finding about token expiry"
    code, found, _ = examined("--health", *words)
    assert (code, [*found]) == (1, ["token expiry"])
    with pytest.raises(TimeoutError):
        silent.accept()


def test_pulsar_brokers_that_do_not_answer_are_asked_about_one_topic(
    silent: socket.socket, tmp_path: Path
) -> None:
    _, found, _ = examined("--no-spark-start", *silent_words(silent, tmp_path))
    assert ": timeout; check that the brokers run" in found["topic telemetry"]["text"]
    for name in TOPICS[1:]:
        assert found[f"topic {name}"]["text"].endswith(f"/{name}: not checked")
        assert found[f"topic {name}"]["remedy"] == "see the finding about topic telemetry"


def test_a_token_that_brokers_refuse_is_found_by_the_admin_api_and_no_topic_is_asked_with_it(
    silent: socket.socket, tmp_path: Path
) -> None:
    file = token_file(tmp_path, "signed-with-another-key")
    with FakePulsar(Cluster(token="the right one")) as pulsar:
        given = {"token_file": file, "cluster": "c", "admin_urls": pulsar.admin_urls}
        words = silent_words(silent, tmp_path, **given)
        _, found, printed = examined("--no-spark-start", *words)
    assert "answered 401 to the partitions of t/ns/telemetry" in found["topic telemetry"]["text"]
    for name in TOPICS[1:]:
        assert found[f"topic {name}"]["remedy"] == "see the finding about topic telemetry"
    assert "signed-with-another-key" not in printed
    with pytest.raises(TimeoutError):
        silent.accept()


def told(found: Sequence[Finding]) -> list[tuple[str, str, str]]:
    return [(one.check, one.status, one.text) for one in found]


@pytest.mark.heavy
def test_a_check_that_does_not_end_is_a_finding_and_the_next_one_runs() -> None:
    said: list[str] = []
    limit = TimeLimit(said.append, total_s=30, check_s=1.0, say_every_s=0.4)
    released = threading.Event()

    def stuck() -> Iterator[Finding]:
        yield ok("topic a", "fine")
        released.wait(60)

    assert told(limit.run("topics", stuck)) == [
        ("topic a", "ok", "fine"),
        ("topics", "fail", "not finished within 1 s"),
    ]
    assert limit.exceeded
    assert said[0] == "doctor: topics: not finished after 0 s; the limit is 1 s"
    assert limit.run("disk", lambda: [ok("disk", "fine")]) == [ok("disk", "fine")]
    released.set()


def test_no_check_begins_when_the_time_of_all_is_over() -> None:
    limit = TimeLimit(print, total_s=0)
    found = limit.run("cluster", lambda: [ok("cluster", "fine")], "warn")
    assert told(found) == [("cluster", "warn", "not checked: doctor's limit of 0 s is reached")]
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
    *_, executor, cluster = examine(None, given, spark_start=False, shadow=False, limit=limit)
    assert (executor.check, executor.status) == ("executor", "ok")
    assert told([cluster]) == [("cluster", "fail", "not finished within 5 s")]
    assert limit.exceeded


#: No rival of ours: neither sheds nor splits. Clusters of tests/golden are configured so.
QUIET = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "statsUpdateFrequencyInSecs": "60",
}


def test_clocks_that_differ() -> None:
    with FakePulsar(Cluster()) as pulsar:
        asked, brokers = PulsarSettings("c", pulsar.admin_urls), pulsar.cluster.brokers
        assert check_clocks(brokers, asked).status == "ok"
        found = check_clocks(brokers, asked, lambda: time.time() + 60)
    assert found.status == "warn"
    assert "differs by" in found.text
