"""`rebalancer drain` on real brokers with clients, tokens and both load managers: what clients
notice of a broker that goes, with and without a drain.

`pytest tests/servers/test_drain.py -rP` prints the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strategies.model import Command
from tests.control_topic import now_ms
from tests.servers.loop import Loop, closed_loop
from tests.servers.operating import Operator
from tests.servers.pulsar_cluster import Manager
from tests.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tests.servers.skewed_users import Users, settle, skewed_users, topic_in
from tests.servers.test_closed_loop import (
    assert_replay_is_identical,
    every_command_has_one_outcome,
    nothing_was_lost,
    told,
    wait_for_rounds,
)
from tests.servers.test_pulsar import isolation
from tests.servers.traffic_log import Disturbance, disturbance, pauses

pytestmark = [pytest.mark.servers, pytest.mark.spark]
_BROKERS, _BUNDLES, _MSGS = 4, 32, 200.0
#: How long clients are watched after a broker has gone: longer than its metadata session.
_WATCHED_S = 15.0
#: Rounds are short, and no bundle moves that nobody drains: what clients notice is of the drain, or
#: of the stop.
SETTINGS = {
    "round__interval_ms": 4_000,
    "round__lateness_ms": 2_000,
    "collector__pass_interval_ms": 1_000,
    "shedding__uniform__throughput_ratio": 1_000,
}
Window = tuple[int, int]


@dataclass
class Scene:
    """A cluster, its users, the loop, the operator; `windows`: what happened → when."""

    processes: PulsarProcesses
    users: Users
    loop: Loop
    operator: Operator
    windows: dict[str, Window] = field(default_factory=dict)

    @property
    def brokers(self) -> Sequence[str]:
        return self.processes.cluster.brokers

    def goes(self, broker: str, how: Callable[[], None], name: str) -> None:
        """A broker goes, and clients are watched; then it comes back."""
        began = now_ms()
        how()
        time.sleep(_WATCHED_S)
        self.windows[name] = (began, now_ms())
        self.processes.start([broker])

    def bring_home(self, broker: str) -> None:
        """Its bundles come back to a broker, by hand."""
        homes = self.brokers
        settle(self.processes.cluster, self.users.admin, self.users.topics, homes)
        assert broker in self.users.owners().values()
        wait_for_rounds(2, self.loop)


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_drained_broker_goes_and_no_client_notices(
    jdk: None, manager: Manager, tmp_path: Path
) -> None:
    with scene(tmp_path, manager) as at:
        victim = at.brokers[1]
        server = at.processes.servers[victim]
        told("at the start", at.users)
        at.windows["nothing"] = (now_ms() - 5_000, now_ms())
        began = now_ms()
        said = at.operator.runs("drain", victim, "--reason", "kernel update")
        at.windows["drain"] = (began, now_ms())
        print(said.text)
        assert (said.code, "is drained" in said.text) == (0, True), said.text
        told("drained", at.users)
        assert victim not in at.users.owners().values()

        at.goes(victim, server.shut_down, "stop after the drain")
        assert victim not in at.users.owners().values(), "a drain outlasts a restart"
        at.goes(victim, server.kill, "kill -9 after the drain")
        assert victim not in at.users.owners().values()
        wait_for_rounds(2, at.loop)

        said = at.operator.runs("undrain", victim)
        print(said.text)
        assert said.code == 0, said.text
        at.bring_home(victim)
        at.goes(victim, server.shut_down, "stop without a drain")
        at.bring_home(victim)
        at.goes(victim, server.kill, "kill -9 without a drain")

        at.loop.stop("collect", "execute")
        traffic = at.users.end()
        moves = pauses(at.loop.outcomes(), traffic, at.users.topics)
        assert_replay_is_identical(at.loop, tmp_path)
    seen = {name: disturbance(traffic, *window) for name, window in at.windows.items()}
    for name, figures in seen.items():
        print(f"{manager}, {name}: {figures}")
    print(f"{manager}, the drain's {len(at.loop.outcomes())} moves: {moves}")
    assert nothing_was_lost(traffic)
    assert drained_by_commands_alone(at.loop, victim)
    assert undisturbed(seen, "stop after the drain", "kill -9 after the drain")
    assert seen["kill -9 without a drain"].clients


def undisturbed(seen: dict[str, Disturbance], *names: str) -> bool:
    return all(seen[name].clients == [] for name in names)


def drained_by_commands_alone(loop: Loop, broker: str) -> bool:
    """Every command is of the drain, leads away from the broker, and has one outcome."""
    commands = loop.commands()
    return (
        {(one.code, one.source) for one in commands} == {("drain", broker)}
        and all(one.destination != broker for one in commands)
        and every_command_has_one_outcome({one.id for one in commands}, loop)
    )


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_a_drain_that_cannot_be_is_refused_with_one_sentence_and_nothing_changes(
    jdk: None, manager: Manager, tmp_path: Path
) -> None:
    with scene(tmp_path, manager, bundles=8, msgs=20) as at:
        first, second, third, fourth = at.brokers
        refused(at, "unknown-broker", "10.9.8.7:8080")
        with bound(at, second):
            wait_for_rounds(2, at.loop)
            refused(at, "t/bound", second)

        at.processes.servers[third].kill()
        at.loop.wait_until(lambda: third in at.loop.rounds()[-1].stale, "a round misses it")
        at.loop.wait_until(lambda: len(at.users.owners()) == 8, "its bundles are owned")
        refused(at, "not-live", third)

        at.loop.stop("execute")  # else the other drains would move bundles
        for broker in (first, second):
            words = ("drain", broker, "--reason", "test", "--together", "--no-wait")
            assert at.operator.runs(*words).code == 0
        at.loop.wait_until(lambda: len(at.operator.active("drain")) == 2, "a round has both drains")
        refused(at, "last-broker", fourth, "--together")
        assert not [one for one in at.loop.commands() if one.source == fourth]


def refused(at: Scene, words: str, broker: str, *more: str) -> None:
    """A drain ends with one sentence that has these words, and moves nothing."""
    owners, commands = at.users.owners(), commands_about(at, broker)
    said = at.operator.runs("drain", broker, "--reason", "test", *more)
    print(said.text)
    assert said.code == 1
    assert words in said.last_line, said.text
    assert "Traceback" not in said.text
    wait_for_rounds(2, at.loop)
    assert at.users.owners() == owners
    assert commands_about(at, broker) == commands
    assert broker not in [one.broker for one in at.operator.active("drain")]


def commands_about(at: Scene, broker: str) -> list[Command]:
    return [one for one in at.loop.commands() if one.source == broker]


@contextmanager
def bound(at: Scene, broker: str) -> Iterator[None]:
    """A namespace whose bundles no other broker may take."""
    cluster = at.processes.cluster
    cluster.namespace("t/bound", 1)
    (range_,) = at.users.admin.ranges("t/bound")
    bundle = f"t/bound/{range_}"
    settle(cluster, at.users.admin, {bundle: topic_in(bundle)}, [broker])
    with isolation(cluster, "t/bound", [broker]):
        yield


@contextmanager
def scene(
    folder: Path, manager: Manager, *, bundles: int = _BUNDLES, msgs: float = _MSGS
) -> Iterator[Scene]:
    """Bundles are evenly at home on all brokers, and rounds see them."""
    (folder / "cluster").mkdir()
    settings = {**SETTINGS, "filters__load_manager": manager}
    with pulsar_processes(folder / "cluster", manager, brokers=_BROKERS, guarded=True) as processes:
        cluster = processes.cluster
        with (
            closed_loop(folder / "loop", cluster.settings(folder), None, **settings) as loop,
            skewed_users(
                cluster,
                folder,
                "t/drained",
                bundles=bundles,
                msgs=msgs,
                weights=lambda names: [1.0] * len(names),
                homes=cluster.brokers,
            ) as users,
        ):
            loop.begin()
            loop.wait_until(
                lambda: any(len(one.usage) == _BROKERS for one in loop.rounds()), "all are seen"
            )
            yield Scene(processes, users, loop, Operator(loop))
