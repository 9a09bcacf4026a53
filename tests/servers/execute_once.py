"""`rebalancer execute` over all present commands, on a fake cluster."""

from pathlib import Path

from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import Answer, rebalancer
from tools.processes.set_words import set_words


def execute_once(state: Path, *words: str) -> Answer:
    """`words` name the topics; calls are made (`--apply`)."""
    with FakePulsar(Cluster()) as pulsar:
        given = {
            "pulsar.cluster": "c",
            "pulsar.admin_urls": pulsar.admin_urls,
            "executor.state": state,
        }
        return rebalancer("execute", "--apply", "--once", *words, *set_words(given))
