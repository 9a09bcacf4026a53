"""Doctor on real servers: what brokers really run, how long the token holds, and which rounds on a
topic are the newest of a job.
"""

import time
from pathlib import Path

import msgspec
import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import check_cluster
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.doctor.signing_keys_and_tokens import check_expiry
from pulsar_rebalancer.settings.merge_sources import load
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.epochs import newest_rounds
from tests.control_topic import TOPICS, Control, now_ms
from tests.servers.topic_server import topic_server
from tests.topic_uris import topic_of
from tools.servers.pulsar_cluster import PulsarCluster, token_of

pytestmark = pytest.mark.servers
LATER_MS = 3_000


def found(settings: PulsarSettings) -> dict[str, Finding]:
    examined = (*check_expiry(settings, time.time()), *check_cluster(load(), settings, False))
    return {finding.check: finding for finding in examined}


def said(finding: Finding) -> tuple[str, str]:
    return finding.status, finding.text


def test_modular_brokers_run_what_they_name(pulsar: PulsarCluster, tmp_path: Path) -> None:
    told = found(pulsar.settings(tmp_path))
    assert said(told["load manager"]) == ("ok", "ModularLoadManagerImpl")
    assert said(told["built-in shedder"]) == ("ok", "ThresholdShedder, and shedding is off")
    assert "token expiry" not in told


def test_extensible_brokers_run_another_shedder_and_a_token_ends_in_time(
    guarded_pulsar: PulsarCluster, tmp_path: Path
) -> None:
    told = found(guarded_pulsar.settings(tmp_path))
    assert said(told["load manager"]) == ("ok", "ExtensibleLoadManagerImpl")
    assert told["built-in shedder"].text.startswith(
        "TransferShedder: the extensible load manager runs it in place of ThresholdShedder"
    )
    assert said(told["token expiry"]) == ("ok", "the token never expires")

    now = int(time.time())
    soon = found(guarded_pulsar.settings(tmp_path, token_of("admin", exp=now + 90_000)))
    assert (soon["token expiry"].status, soon["token"].status) == ("warn", "ok")
    assert "a new token" in soon["token expiry"].remedy

    for claims in ({"exp": now - 60}, {"nbf": now + 3_600}):
        over = found(guarded_pulsar.settings(tmp_path, token_of("admin", **claims)))
        assert (over["token expiry"].status, over["token"].status) == ("fail", "fail"), (
            "the broker refuses it too"
        )


@pytest.fixture(params=["kafka", "pulsar"])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> Control:
    server = topic_server(request.getfixturevalue(request.param))
    group = f"health-{time.time_ns()}"
    return Control(tmp_path, {topic: server.make(group, topic, 2) for topic in TOPICS})


def close_round(control: Control, number: int) -> None:
    told = {"v": 1, "cluster": "c", "epoch": 1, "round": number, "ts": now_ms(), "commands": []}
    control.write("rounds", [msgspec.json.encode(told)])


def test_rounds_that_were_published_before_are_left_out(control: Control) -> None:
    def newest(**since: int) -> list[int]:
        uri = topic_of(control.uri("rounds"))
        return [one.round for one in newest_rounds(uri, control.access, **since).values()]

    close_round(control, 1)
    time.sleep(LATER_MS / 1000)
    middle = now_ms() - LATER_MS // 2
    assert newest(since_ms=middle) == []
    close_round(control, 2)
    assert newest(since_ms=middle) == newest() == [2]
    assert newest(since_ms=now_ms() + 60_000) == []
