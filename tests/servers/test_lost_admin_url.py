"""The only broker that `pulsar.admin_urls` names dies on a real cluster: passes go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.wire.record_decoding import decode
from strategies.cluster.model import Sweep
from tests.control_topic import Control
from tests.servers.pulsar_commands import around, words
from tools.processes.process import Process
from tools.servers.pulsar_processes import PulsarProcesses

pytestmark = pytest.mark.servers


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["modular", "extensible"])
def test_passes_go_on(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cluster: PulsarProcesses = request.getfixturevalue(kind)
    control, named = Control(tmp_path), cluster.cluster.brokers[0]
    settings = replace(cluster.cluster.settings(tmp_path), admin_urls=f"http://{named}")
    given = [*words(settings), *around(control), "--set", "collector.pass_interval_ms=500"]
    with Process(tmp_path / "collect.log", "collect", *given) as running:
        running.wait_for("load manager")
        goes_on(control, running)
        with killed(cluster, named):
            goes_on(control, running)
            assert "other brokers of the cluster's list are asked" in running.said
            assert running.stop() == exit_codes.OK


@contextmanager
def killed(cluster: PulsarProcesses, broker: str) -> Iterator[None]:
    """It comes back for the tests after this one."""
    cluster.servers[broker].kill()
    try:
        yield
    finally:
        cluster.start([broker])


def goes_on(control: Control, running: Process) -> None:
    """Three more passes in which somebody had figures."""
    before = passes(control)
    running.wait_until(lambda: passes(control) >= before + 3)


def passes(control: Control) -> int:
    records = [decode(value, b"") for value in control.read("telemetry")]
    return sum(isinstance(one, Sweep) and bool(one.brokers) for one in records)
