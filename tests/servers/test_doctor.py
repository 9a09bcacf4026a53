"""Doctor on real servers: what brokers really run, how long the token holds, and the health of a
job whose rounds are on a topic.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.doctor.cluster import check_cluster
from pulsar_rebalancer.doctor.credentials import check_expiry
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.settings.load import Settings, load
from sinks.pulsar_api.access import PulsarSettings
from sinks.topics.epochs import newest_rounds
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.guard_file import guard_of
from tests.control_topic import TOPICS, Control, now_ms
from tests.servers.topic_server import topic_server
from tests.topic_uris import topic_of
from tests.unit.command_line import Answer, rebalancer
from tools.servers.pulsar_cluster import PulsarCluster, pulsar_cluster, token_of
from tools.waiting import eventually

pytestmark = pytest.mark.servers
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
LATER_MS = 3_000


def found(settings: PulsarSettings, shadow: bool = False) -> dict[str, Finding]:
    return {
        finding.check: finding
        for finding in (
            *check_expiry(settings, time.time()),
            *check_cluster(load(), settings, shadow),
        )
    }


def test_modular_brokers_run_what_they_name(pulsar: PulsarCluster, tmp_path: Path) -> None:
    told = found(pulsar.settings(tmp_path))
    assert (told["load manager"].status, told["load manager"].text) == (
        "ok",
        "ModularLoadManagerImpl",
    )
    assert (told["built-in shedder"].status, told["built-in shedder"].text) == (
        "ok",
        "ThresholdShedder, and shedding is off",
    )
    assert "token expiry" not in told


def test_extensible_brokers_run_another_shedder_and_a_token_ends_in_time(
    guarded_pulsar: PulsarCluster, tmp_path: Path
) -> None:
    told = found(guarded_pulsar.settings(tmp_path))
    assert (told["load manager"].status, told["load manager"].text) == (
        "ok",
        "ExtensibleLoadManagerImpl",
    )
    assert told["built-in shedder"].text.startswith(
        "TransferShedder: the extensible load manager runs it in place of ThresholdShedder"
    )
    assert (told["token expiry"].status, told["token expiry"].text) == (
        "ok",
        "the token never expires",
    )

    soon = found(
        guarded_pulsar.settings(tmp_path, token_of("admin", exp=int(time.time()) + 90_000))
    )
    assert (soon["token expiry"].status, soon["token"].status) == ("warn", "ok")
    assert "a new token" in soon["token expiry"].remedy

    for claims in ({"exp": int(time.time()) - 60}, {"nbf": int(time.time()) + 3_600}):
        over = found(guarded_pulsar.settings(tmp_path, token_of("admin", **claims)))
        assert (over["token expiry"].status, over["token"].status) == ("fail", "fail"), (
            "the broker refuses it too"
        )


@pytest.mark.slow
def test_a_change_of_the_load_manager_that_failed_silently_is_found(
    jdk: None, tmp_path: Path
) -> None:
    """Pulsar answers 200, names the new load manager, runs the old one, and lists no broker any
    more.
    """
    (tmp_path / "pulsar").mkdir()
    with pulsar_cluster(tmp_path / "pulsar", brokers=2) as cluster:
        settings = cluster.settings(tmp_path)
        assert found(settings)["load manager"].status == "ok"
        cluster.post(f"brokers/configuration/loadManagerClassName/{EXTENSIBLE}", None)
        eventually(
            lambda: found(settings)["load manager"].status == "fail",
            120,
            "the brokers take the new setting",
        )
        told = found(settings)
    assert (
        "runs ModularLoadManagerImpl, although ExtensibleLoadManagerImpl is configured"
        in told["load manager"].text
    )
    assert told["brokers"].text == "the cluster lists no broker, although one answers"


@pytest.fixture(params=["kafka", "pulsar"])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> Control:
    """Topics on a real server."""
    server = topic_server(request.getfixturevalue(request.param))
    group = f"health-{time.time_ns()}"
    return Control(tmp_path, {topic: server.make(group, topic, 2) for topic in TOPICS})


def flags(control: Control) -> list[str]:
    topics = [f"topics.{topic}={control.uri(topic)}" for topic in TOPICS]
    return [f"job.checkpoint={control.folder}/checkpoint", *topics]


@pytest.fixture
def given(control: Control) -> Iterator[Settings]:
    """Settings of a job on these topics, which holds its checkpoint as long as the test lasts."""
    settings = load(flags=flags(control))
    with guarded(Path(settings.job.checkpoint), guard_of(settings.job, settings.engine)):
        yield settings


def close_round(control: Control, number: int, ago_ms: int = 0) -> None:
    told = {
        "v": 1,
        "cluster": "c",
        "epoch": 1,
        "round": number,
        "ts": now_ms() - ago_ms,
        "commands": [],
    }
    control.write("rounds", [msgspec.json.encode(told)])


def health(control: Control) -> Answer:
    words = [word for one in flags(control) for word in ("--set", one)]
    return rebalancer("doctor", "--health", "--json", *words)


def test_the_health_of_a_job_is_read_off_the_newest_rounds(
    control: Control, given: Settings
) -> None:
    first = health(control)
    assert (first.code, first.json["findings"][0]["text"].endswith("closed no round yet")) == (
        exit_codes.OK,
        True,
    )
    close_round(control, 1)
    close_round(control, 2)
    fresh = health(control)
    assert (fresh.code, "last round 2 of c" in fresh.json["findings"][0]["text"]) == (
        exit_codes.OK,
        True,
    )


def test_rounds_that_were_published_before_are_left_out(control: Control, given: Settings) -> None:
    uri, access = control.uri("rounds"), given.connections.access
    close_round(control, 1)
    time.sleep(LATER_MS / 1000)
    middle = now_ms() - LATER_MS // 2
    assert newest_rounds(topic_of(uri), access, since_ms=middle) == {}
    close_round(control, 2)
    assert [
        told.round for told in newest_rounds(topic_of(uri), access, since_ms=middle).values()
    ] == [2]
    assert [told.round for told in newest_rounds(topic_of(uri), access).values()] == [2]
    assert newest_rounds(topic_of(uri), access, since_ms=now_ms() + 60_000) == {}
