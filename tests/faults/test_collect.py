"""`rebalancer collect` as a real process: it ends when it is told to, and nobody sees its token."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Sweep
from tests.control_topic import Control
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.test_collector import REPORT
from tools.processes.real_collector import real_collector
from tools.processes.real_executor import TOKEN

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at through /proc"),
]


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT, token=TOKEN)) as running:
        yield running


def kinds(folder: Path) -> list[type]:
    return [type(decode(value, b"")) for value in Control(folder).read("telemetry")]


def test_it_collects_until_sigterm_and_its_token_shows_nowhere(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    with real_collector(tmp_path, pulsar, Control(tmp_path), 100) as process:
        process.wait_until(lambda: kinds(tmp_path).count(Sweep) >= 3)
        seen = b"".join(
            Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")
        )
        # A proxy between us and the broker repeats what it was sent.
        pulsar.faults = lambda request: Fault(
            instead=Answer(500, f"bad header: {request.headers['authorization']}".encode())
        )
        process.wait_for("answered 500")
        assert process.stop() == exit_codes.OK, process.said

    assert b"collect" in seen
    assert TOKEN.encode() not in seen
    assert LoadReport in kinds(tmp_path)
    files = [one for one in tmp_path.rglob("*") if one.is_file() and one.name != "token"]
    assert [file for file in files if TOKEN.encode() in file.read_bytes()] == []
