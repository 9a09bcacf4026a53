"""Waves of look-ups on modular brokers: the old way to find owners freezes one, the executor's way does not.

`python -m tests.servers.waves FOLDER --help` runs the same with other sizes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cli.doctor.freezes import check_freezes
from sinks.collecting import BrokerPoll
from sinks.freezes import FrozenReports, look, probing, stuck_brokers
from sinks.pulsar_admin import PulsarAdmin
from tests.control_topic import command, now_ms
from tests.faults.real_executor import RealExecutor
from tests.servers.jvm import java
from tests.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tests.servers.waves import PATIENT, Plan, owner_by_list, rehearse, waves
from tests.waiting import eventually

pytestmark = pytest.mark.slow
_FREEZES_S = 900.0
_MOVES, _HALF_AN_HOUR_S = 1_000, 1_800.0


@pytest.fixture
def own_brokers(jdk: None, tmp_path: Path) -> Iterator[PulsarProcesses]:
    """Two that a test may freeze."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with pulsar_processes(folder, brokers=2, more=PATIENT) as processes:
        yield processes


def test_the_old_call_freezes_a_broker_and_that_is_recognised(own_brokers: PulsarProcesses, tmp_path: Path) -> None:
    cluster, settings = own_brokers.cluster, own_brokers.cluster.settings(tmp_path)
    assert not stuck_brokers(settings)

    with waves(cluster, "waves/all", owner_by_list) as made:
        eventually(lambda: bool(stuck_by_dump(own_brokers)), _FREEZES_S, lambda: f"no broker froze: {made.figures()}", every_s=3)
    (frozen,) = stuck_by_dump(own_brokers)
    (other,) = (broker for broker in cluster.brokers if broker != frozen)

    found = check_freezes(cluster.brokers, settings)
    assert (found.status, found.text.partition(" is frozen")[0]) == ("fail", frozen)
    with closing(PulsarAdmin(probing(settings))) as admin:
        assert [look(admin, broker) for broker in (frozen, other)] == ["stuck", "reads"]
        poll = BrokerPoll(FrozenReports(admin).load_report, 4, 0, now_ms)
        eventually(
            lambda: f"{frozen} is frozen" in poll.run(cluster.brokers).missing.get(frozen, ""), _FREEZES_S, "collect does not see it"
        )
        done = poll.run(cluster.brokers)
        assert done.answered == (other,)
    with RealExecutor(tmp_path / "executor", settings) as executor:
        executor.control.send(command(made.bundles[0], other, frozen), command(made.bundles[1], frozen, other), key=executor.key)
        assert executor.finish("--apply") == 0
        assert executor.control.verdicts() == [("refused", "broker-frozen")] * 2

    own_brokers.servers[frozen].kill()
    eventually(lambda: not listed(settings, frozen), _FREEZES_S, f"{frozen} stays listed")
    own_brokers.start([frozen])
    assert not stuck_brokers(settings)


def test_a_stopped_broker_is_not_called_frozen(own_brokers: PulsarProcesses, tmp_path: Path) -> None:
    one, two = own_brokers.cluster.brokers
    settings = replace(own_brokers.cluster.settings(tmp_path), admin_urls=f"http://{one}")
    own_brokers.servers[two].pause()
    try:
        with closing(PulsarAdmin(probing(settings))) as admin:
            assert [look(admin, one), look(admin, two)] == ["reads", "silent"]
        assert check_freezes((one, two), settings).status == "ok"
    finally:
        own_brokers.servers[two].resume()


def test_half_an_hour_of_waves_and_a_thousand_moves_freeze_nothing(jdk: None, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()

    verdicts, silent = rehearse(Plan(seconds=_HALF_AN_HOUR_S, moves=_MOVES), tmp_path, print)

    assert silent == []
    assert verdicts["applied"] >= _MOVES
    assert not [verdict for verdict in verdicts if "broker-frozen" in verdict], "no broker was frozen, however busy the machine was"


def stuck_by_dump(processes: PulsarProcesses) -> list[str]:
    """Brokers whose thread for metadata waits inside the call, in two thread dumps."""
    waiting = [broker for broker in processes.cluster.brokers if _waits(processes, broker)]
    return [broker for broker in waiting if _waits(processes, broker)]


def _waits(processes: PulsarProcesses, broker: str) -> bool:
    tool = java().removesuffix("java") + "jstack"
    dump = subprocess.run([tool, str(processes.servers[broker].pid)], capture_output=True, text=True, check=False).stdout
    (thread,) = re.findall(r'"metadata-store-event-.*?\n\n', dump, re.DOTALL) or [""]
    return "CompletableFuture.join" in thread and "getOwnedNameSpacesStatusAsync" in thread


def listed(settings: object, broker: str) -> bool:
    with closing(PulsarAdmin(settings)) as admin:  # type: ignore[arg-type]
        return broker in admin.brokers()
