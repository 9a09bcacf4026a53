"""The demo with its topics on Kafka: the same story as with folders."""

from pathlib import Path

import pytest

from tests.unit.command_line import rebalancer
from tools.servers.kafka_broker import KafkaBroker

pytestmark = pytest.mark.servers


def test_the_demo_tells_the_same_story_on_kafka(kafka: KafkaBroker, tmp_path: Path) -> None:
    words = ["demo", "--engine", "plain", "--rounds", "8", "--json"]
    folders = rebalancer(*words, "--out", tmp_path / "folders").json
    on_kafka = rebalancer(*words, "--out", tmp_path / "kafka", "--kafka", kafka.address()).json
    assert on_kafka["rounds"] == folders["rounds"]
    assert any(one["commands"] for one in on_kafka["rounds"])


def test_what_was_decided_on_kafka_can_be_explained_from_there(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    done = rebalancer(
        "demo",
        "--engine",
        "plain",
        "--rounds",
        "8",
        "--json",
        "--out",
        tmp_path / "run",
        "--kafka",
        kafka.address(),
    ).json
    command = next(command for one in done["rounds"] for command in one["commands"])
    told = rebalancer("explain", command["id"], "--config", tmp_path / "run" / "demo.toml")
    assert told.code == 0, told.err
    assert command["bundle"] in told.words
    assert "UTC: applied, now on " in told.words, "outcomes are read from Kafka too"
    assert rebalancer("explain", "--config", tmp_path / "run" / "demo.toml").out.startswith(
        f"round {len(done['rounds'])} of cluster "
    )
