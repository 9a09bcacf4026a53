"""A broker that was killed comes back at once, though its metadata session has not expired yet."""

from __future__ import annotations

import pytest

from tools.servers.pulsar_processes import PulsarProcesses

pytestmark = pytest.mark.servers


def test_a_start_begins_when_the_session_of_the_killed_broker_has_expired(
    modular: PulsarProcesses,
) -> None:
    broker, server = next(
        (broker, server) for broker, server in modular.servers.items() if server.runs
    )
    before = server.log.stat().st_size
    server.kill()
    modular.start([broker])
    log = server.log.read_bytes()[before:]
    assert b"The broker is ready" in log
    assert b"Deleting stale lock" not in log
