"""Decisions and their outcomes on real topics, explained from there; the status of the cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sinks.topics.topic_settings import TopicAccess
from sinks.wire.record_decoding import decode_command
from sinks.wire.record_encoding import encode_outcome
from tests.control_topic import TOPICS, Control, outcome
from tests.topic_uris import topic_settings
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.skewed_users import topic_in

pytestmark = pytest.mark.servers


@pytest.fixture(params=["kafka", "pulsar", "guarded_pulsar"])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> Control:
    """The five topics on a server, and the words that name them."""
    server: KafkaBroker | PulsarCluster = request.getfixturevalue(request.param)
    if isinstance(server, KafkaBroker):
        return Control(tmp_path, {name: server.topic(f"explained-{name}") for name in TOPICS})
    server.namespace("t/explained", 4)
    access = TopicAccess(pulsar=server.settings(tmp_path))
    return Control(tmp_path, {name: server.topic(f"t/explained/{name}") for name in TOPICS}, access)


def test_from_the_topics_of_a_server(control: Control, tmp_path: Path) -> None:
    log = uneven(rounds=5)
    rebalancer("replay", recorded(tmp_path, log), "--out", tmp_path / "out", *EAGER_WORDS)
    for kind in ("commands", "rounds"):
        control.write(kind, (tmp_path / "out" / f"{kind}.jsonl").read_bytes().splitlines())
    control.write("telemetry", log)
    refused, moved, dry = (decode_command(value) for value in control.read("commands"))
    given = (
        outcome(refused, "refused", "paused: a test"),
        outcome(moved, "applied"),
        outcome(dry, "dry-run"),
    )
    control.write("outcomes", [encode_outcome(one) for one in given])

    explained = asking(control, "explain")
    assert "outcome: 2026-11-18" in explained(refused.id)
    assert f"{refused.bundle}: refused (paused: a test)" in explained("1")
    assert "UTC: applied, now on idle:1" in explained(topic_in(moved.bundle))
    assert "dry run, no bundle was moved" in explained(dry.bundle)
    assert "1 refused: paused" in explained("hot")
    assert explained().startswith("round 5 of cluster c")
    assert "it was on idle:1 when that last reported" in explained("t/ns/0x09000000_0x0a000000")

    status = asking(control, "status")()
    assert "cluster c: was waiting" in status
    assert "3 commanded moves count as done, and reports do not show them yet" in status
    assert f"{refused.bundle} of hot:1 to idle:1: refused (paused: a test)" in status
    assert "newest sweep" in status
    assert "2 brokers" in status


def asking(control: Control, command: str) -> Callable[..., str]:
    """A command with the settings of these topics."""
    values = topic_settings({name: control.uri(name) for name in TOPICS})
    if control.access.pulsar.token_file:
        values |= {"pulsar.token_file": control.access.pulsar.token_file}
    words = set_words(values)

    def answered(*subject: str) -> str:
        answer = rebalancer(command, *subject, *words)
        assert answer.code == 0, answer.err
        return answer.out

    return answered
