"""The demo with its topics on Kafka: the same story as with folders, explained from there."""

from pathlib import Path

import pytest

from tests.unit.command_line import rebalancer
from tools.servers.kafka_broker import KafkaBroker

pytestmark = pytest.mark.servers


def test_the_demo_tells_the_same_story_on_kafka_and_it_can_be_explained_from_there(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    words = ["demo", "--engine", "plain", "--rounds", "8", "--json", "--out"]
    folders = rebalancer(*words, tmp_path / "folders").json
    rounds = rebalancer(*words, tmp_path / "run", "--kafka", kafka.address()).json["rounds"]
    assert rounds == folders["rounds"]

    command = next(command for one in rounds for command in one["commands"])
    settings = ("--config", tmp_path / "run" / "demo.toml")
    told = rebalancer("explain", command["id"], *settings)
    assert told.code == 0, told.err
    assert command["bundle"] in told.words
    assert "UTC: applied, now on " in told.words, "outcomes are read from Kafka too"
    newest = rebalancer("explain", *settings).out
    assert newest.startswith(f"round {len(rounds)} of cluster ")
