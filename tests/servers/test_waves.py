"""Waves of look-ups on modular brokers: the old way to find owners freezes one, the executor's way
does not.

`python -m tools.traffic.waves FOLDER --help` runs the same with other sizes.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import httpx
import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import check_freezes
from sinks.collector.broker_poll import BrokerPoll
from sinks.executor.pause_meter import WaveFigures
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.frozen_brokers import FrozenReports, Stuck, find_stuck, look, probing
from tests.control_topic import now_ms
from tools.processes.real_executor import RealExecutor
from tools.servers.java_here import java
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tools.traffic.waves import PATIENT, Plan, move, owner_by_list, rehearse, sort, waves
from tools.waiting import eventually

pytestmark = pytest.mark.slow
_FREEZES_S = 900.0


@pytest.fixture
def own_brokers(jdk: None, tmp_path: Path) -> Iterator[PulsarProcesses]:
    """Two that a test may freeze."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with pulsar_processes(folder, brokers=2, more=PATIENT) as processes:
        yield processes


def stuck_brokers(settings: PulsarSettings) -> Stuck:
    with closing(PulsarAdmin(probing(settings))) as admin:
        brokers = admin.brokers()
        return find_stuck(admin, brokers, brokers)


def test_the_old_call_freezes_a_broker_and_that_is_recognised(
    own_brokers: PulsarProcesses, tmp_path: Path
) -> None:
    """An executor is at work all the time: when the broker freezes, while it is frozen, and after
    its restart.
    """
    cluster, random, polling = own_brokers.cluster, Random(1), Event()
    settings = cluster.settings(tmp_path)
    assert not stuck_brokers(settings)

    with (
        closing(PulsarAdmin(settings)) as admin,
        RealExecutor(tmp_path / "executor", settings, executor__max_concurrent=16) as executor,
        waves(
            cluster, "waves/all", lambda *where: owner_by_list(*where) if polling.is_set() else ""
        ) as made,
    ):
        executor.start("--apply")

        def moves() -> set[str]:
            return {sort(outcome) for outcome in move(made, admin, executor, random)}

        def froze() -> bool:
            moves()
            return bool(stuck_by_dump(own_brokers))

        eventually(lambda: "applied" in moves(), _FREEZES_S, "the executor moves nothing")
        polling.set()
        eventually(froze, _FREEZES_S, lambda: f"no broker froze: {made.figures()}", every_s=1)
        made.ended.set()
        (frozen,) = stuck_by_dump(own_brokers)
        (other,) = (broker for broker in cluster.brokers if broker != frozen)

        found = check_freezes(cluster.brokers, settings)
        assert (found.status, found.text.partition(" is frozen")[0]) == ("fail", frozen)
        with closing(PulsarAdmin(probing(settings))) as prober:
            assert [look(prober, broker) for broker in (frozen, other)] == ["stuck", "reads"]
            poll = BrokerPoll(FrozenReports(prober).load_report, 4, 0, now_ms)
            eventually(
                lambda: f"{frozen} is frozen" in poll.run(cluster.brokers).missing.get(frozen, ""),
                _FREEZES_S,
                "collect does not see it",
            )
            assert poll.run(cluster.brokers).answered == (other,)
        eventually(
            lambda: moves() == {"refused broker-frozen"},
            _FREEZES_S,
            "the executor goes on moving bundles",
        )

        own_brokers.servers[frozen].kill()
        eventually(lambda: not listed(settings, frozen), _FREEZES_S, f"{frozen} stays listed")
        own_brokers.start([frozen])
        assert not stuck_brokers(settings)
        eventually(lambda: "applied" in moves(), _FREEZES_S, "no bundle moves after the restart")


def test_a_stopped_broker_is_not_called_frozen(
    own_brokers: PulsarProcesses, tmp_path: Path
) -> None:
    one, two = own_brokers.cluster.brokers
    settings = replace(own_brokers.cluster.settings(tmp_path), admin_urls=f"http://{one}")
    own_brokers.servers[two].pause()
    try:
        with closing(PulsarAdmin(probing(settings))) as admin:
            assert [look(admin, one), look(admin, two)] == ["reads", "silent"]
        assert check_freezes((one, two), settings).status == "ok"
    finally:
        own_brokers.servers[two].resume()


def test_a_list_of_the_topics_of_one_bundle_freezes_a_broker_that_has_just_started(
    own_brokers: PulsarProcesses, tmp_path: Path
) -> None:
    """The figures of what it has loaded, from its memory, do not."""
    cluster, settings = own_brokers.cluster, own_brokers.cluster.settings(tmp_path)
    two = cluster.brokers[1]
    namespace = cluster.namespace("t/listed", 4)
    for number in range(8):
        cluster.put(f"persistent/{namespace}/topic-{number}", None)
    with closing(PulsarAdmin(settings)) as admin:
        bundles = [f"{namespace}/{range_}" for range_ in admin.ranges(namespace)]

    restart(own_brokers, two)
    with closing(PulsarAdmin(replace(settings, admin_urls=f"http://{two}"))) as admin:
        figures = WaveFigures(admin)
        found = [figures.of_bundle(bundle, two).topics for bundle in bundles]
    assert found == [None] * 4, "no client has come back"
    assert not stuck_brokers(settings)

    restart(own_brokers, two)
    range_ = bundles[0].rpartition("/")[2]
    with httpx.Client(timeout=10) as client, pytest.raises(httpx.ReadTimeout):
        client.get(f"http://{two}/admin/v2/persistent/{namespace}?bundle={range_}")
    assert stuck_brokers(settings).brokers == (two,)


def restart(processes: PulsarProcesses, broker: str) -> None:
    processes.servers[broker].shut_down()
    processes.start([broker])


@pytest.mark.parametrize(
    ("plan", "least"),
    [(Plan(seconds=1_800, moves=1_000), 1_000), (Plan("extensible", seconds=300, moves=200), 0)],
    ids=["half an hour, modular", "five minutes, extensible"],
)
def test_waves_and_many_moves_freeze_nothing(
    jdk: None, tmp_path: Path, plan: Plan, least: int
) -> None:
    """However busy the machine is."""
    (tmp_path / "cluster").mkdir()

    verdicts, silent = rehearse(plan, tmp_path, print)

    assert silent == []
    assert verdicts["applied"] >= least
    assert not [verdict for verdict in verdicts if "broker-frozen" in verdict]


def stuck_by_dump(processes: PulsarProcesses) -> list[str]:
    """Brokers whose thread for metadata waits inside the call, in two thread dumps."""
    waiting = [broker for broker in processes.cluster.brokers if _waits(processes, broker)]
    return [broker for broker in waiting if _waits(processes, broker)]


def _waits(processes: PulsarProcesses, broker: str) -> bool:
    tool = java().removesuffix("java") + "jstack"
    dump = subprocess.run(
        [tool, str(processes.servers[broker].pid)], capture_output=True, text=True, check=False
    ).stdout
    (thread,) = re.findall(r'"metadata-store-event-.*?\n\n', dump, re.DOTALL) or [""]
    return "CompletableFuture.join" in thread and "getOwnedNameSpacesStatusAsync" in thread


def listed(settings: object, broker: str) -> bool:
    with closing(PulsarAdmin(settings)) as admin:  # type: ignore[arg-type]
        return broker in admin.brokers()
