"""`collect` and `execute` serve their metrics while they run, if the settings say so."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sinks.metrics.settings import ListenAddress
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.command_line import rebalancer
from tests.unit.metric_samples import get, scraped
from tests.unit.test_collector import REPORT
from tools.processes.set_words import set_words
from tools.waiting import eventually

BUNDLE = "t/ns/0x00000000_0xffffffff"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT)) as running:
        running.cluster.owners[BUNDLE] = running.cluster.brokers[0]
        yield running


def words(pulsar: FakePulsar, folder: Path, listen: str = "127.0.0.1:0") -> list[str]:
    more = {"pulsar__admin_urls": pulsar.admin_urls, "collector__pass_interval_ms": 100}
    logs = {"metrics__listen": listen, "log__format": "json"}
    return set_words(Control(folder).settings(**more, **logs))


@contextmanager
def served(*command_line: str) -> Iterator[ListenAddress]:
    """The address that the command logs; the command is stopped in the end, and ends with 0."""
    program = [sys.executable, "-m", "pulsar_rebalancer", *command_line]
    running = subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stderr is not None
        lines = map(json.loads, running.stderr)
        address = next(line["address"] for line in lines if line["event"] == "metrics")
        host, port = address.split(":")
        yield ListenAddress(host, int(port))
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
        assert running.returncode == 0
    finally:
        running.kill()
        running.communicate()


def ready(address: ListenAddress) -> bool:
    return get(address, "/readyz")[0] == 200


@pytest.mark.heavy
def test_a_collector_is_ready_after_a_pass(pulsar: FakePulsar, tmp_path: Path) -> None:
    with served("collect", *words(pulsar, tmp_path)) as address:
        eventually(lambda: ready(address))
        found = scraped(get(address, "/metrics")[2])
        assert found["pulsar_rebalancer_passes_total", "c"] >= 1
        assert found["pulsar_rebalancer_brokers_answered", "c"] == 3
        assert get(address, "/healthz")[0] == 200


@pytest.mark.heavy
def test_an_executor_counts_its_outcomes(pulsar: FakePulsar, tmp_path: Path) -> None:
    Control(tmp_path).send(command(BUNDLE, pulsar.cluster.brokers[0]))
    counter = ("pulsar_rebalancer_outcomes_total", "c", "dry-run", "dry-run")
    with served("execute", *words(pulsar, tmp_path)) as address:
        eventually(lambda: counter in scraped(get(address, "/metrics")[2]))
        eventually(lambda: ready(address))
        found = scraped(get(address, "/metrics")[2])
        assert found[counter] == 1
        assert found["pulsar_rebalancer_paused", "c"] == 0
        assert found["pulsar_rebalancer_journal_bytes", "c"] > 0


@pytest.mark.parametrize("name", ["collect", "execute"])
def test_a_busy_address_is_one_sentence(name: str, pulsar: FakePulsar, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        listen = f"127.0.0.1:{busy.getsockname()[1]}"
        answer = rebalancer(name, *words(pulsar, tmp_path, listen))
    assert answer.code == 1
    last = json.loads(answer.err.splitlines()[-1])
    said = f"metrics.listen: {listen} cannot be used (Address already in use); name a free port and"
    assert last["text"].startswith(said)
