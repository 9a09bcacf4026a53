"""A cluster that stands still or has died is named, with its threads, so that tests on it do not
fail with riddles.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.jvm import Program, Server
from tests.servers.pulsar_processes import PulsarProcesses
from tests.servers.watch import Watched

pytestmark = pytest.mark.servers


def test_a_broker_that_stands_still_is_named_with_its_threads(
    modular: PulsarProcesses, tmp_path: Path
) -> None:
    broker, server = next(
        (broker, server) for broker, server in modular.servers.items() if server.runs
    )
    settings = modular.cluster.settings(tmp_path)
    assert Watched({broker: server}, settings).look() == ""
    server.pause()
    try:
        found = Watched({broker: server}, settings, patience_ms=2_000).look()
    finally:
        server.resume()
    assert found.startswith(f"{broker} does not read metadata any more")
    assert str(server.folder) in found


def test_a_process_that_has_ended_by_itself_is_named(tmp_path: Path) -> None:
    server = Server(Program("pulsar"), "NoSuchClass", (), tmp_path, "never")
    with pytest.raises(AssertionError, match="ended by itself"):
        server.start()
    assert "127.0.0.1:1 has ended by itself" in Watched({"127.0.0.1:1": server}).look()
    server.kill()


def test_what_was_found_is_not_looked_for_again() -> None:
    assert Watched({}, fault="b:1 is frozen").look() == "b:1 is frozen"
