"""`rebalancer collect` as a real process: it ends when it is told to, and nobody sees its token."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.wire.codec import decode
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


def files_with(secret: str, folder: Path) -> list[Path]:
    """All files but the token's own that hold it."""
    return [
        file
        for file in folder.rglob("*")
        if file.is_file() and file.name != "token" and secret.encode() in file.read_bytes()
    ]


def sweeps(folder: Path) -> int:
    return sum(isinstance(decode(value, b""), Sweep) for value in Control(folder).read("telemetry"))


def test_it_collects_until_sigterm_and_its_token_shows_nowhere(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    with real_collector(tmp_path, pulsar, Control(tmp_path), 100) as process:
        process.wait_until(lambda: sweeps(tmp_path) >= 3)
        seen = b"".join(
            Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")
        )
        # A proxy between us and the broker repeats what it was sent.
        pulsar.faults = lambda request: Fault(
            instead=Answer(500, f"bad header: {request.headers['authorization']}".encode())
        )
        before = sweeps(tmp_path)
        process.wait_for("answered 500")
        assert process.stop() == exit_codes.OK, process.said

    assert b"collect" in seen
    assert TOKEN.encode() not in seen
    assert before >= 3
    assert any(
        isinstance(decode(value, b""), LoadReport) for value in Control(tmp_path).read("telemetry")
    )
    assert files_with(TOKEN, tmp_path) == []


def test_a_wrong_token_is_one_sentence_and_shows_nowhere(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    wrong = f"{TOKEN}-wrong"
    with real_collector(tmp_path, pulsar, Control(tmp_path), 100, wrong) as process:
        assert process.ended() == exit_codes.ERROR
    assert "pulsar.token_file" in process.said
    assert files_with(wrong, tmp_path) == []
