"""`rebalancer drain` on real brokers with clients, tokens and both load managers: what clients
notice of a broker that goes, with and without a drain.

`pytest tests/servers/test_drain.py -rP` prints the figures.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strategies.cluster.model import Command
from tests.control_topic import now_ms
from tests.servers.test_closed_loop import (
    all_are_seen,
    assert_replay_is_identical,
    nothing_was_lost,
    told,
    wait_for_rounds,
)
from tests.servers.test_pulsar import isolation
from tests.servers.verdicts import every_command_has_one_outcome
from tools.processes.loop import Loop, closed_loop
from tools.processes.operating import Operator
from tools.servers.pulsar_cluster import Manager
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tools.traffic.skewed_users import Users, look_up, settle, skewed_users, topic_in
from tools.traffic.traffic_log import disturbance, pauses

pytestmark = [pytest.mark.servers, pytest.mark.spark]
_BROKERS, _BUNDLES, _MSGS = 4, 32, 200.0
#: How long clients are watched after a broker has gone: longer than its metadata session.
_WATCHED_S = 8.0
#: Rounds are short, and no bundle moves that nobody drains: what clients notice is of the drain, or
#: of the stop.
SETTINGS = {
    "round__interval_ms": 4_000,
    "round__lateness_ms": 2_000,
    "collector__pass_interval_ms": 1_000,
    "shedding__uniform__min_throughput": 1_000_000_000,
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

    def watches(self, name: str, happens: Callable[[], None]) -> None:
        """Lets something happen, and watches the clients for a while."""
        began = now_ms()
        happens()
        time.sleep(_WATCHED_S)
        self.windows[name] = (began, now_ms())


@pytest.fixture(
    scope="module", params=["modular", pytest.param("extensible", marks=pytest.mark.slow)]
)
def at(
    jdk: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """For all tests of a load manager, in their order: a cluster, a loop and its job take a minute
    to start.
    """
    with scene(tmp_path_factory.mktemp(f"drained-{request.param}"), request.param) as made:
        yield made


def test_a_drained_broker_goes_and_no_client_notices(at: Scene) -> None:
    victim = at.brokers[1]
    server = at.processes.servers[victim]
    told("at the start", at.users)
    at.watches("nothing", lambda: None)
    began = now_ms()
    said = carried_out(at, "drain", victim, "--reason", "kernel update")
    at.windows["the drain itself"] = (began, now_ms())
    assert "is drained" in said
    told("drained", at.users)
    assert victim not in at.users.owners().values()

    ways = ((server.shut_down, "SIGTERM"), (server.kill, "SIGKILL"))
    for how, name in ways:
        at.watches(f"{name} after the drain", how)
        at.processes.start([victim])
        assert victim not in at.users.owners().values(), "a drain outlasts a restart"
    wait_for_rounds(2, at.loop)
    assert [one.state for one in at.operator.active("drain")] == ["drained"]

    carried_out(at, "undrain", victim)
    for how, name in ways:
        settle(at.processes.cluster, at.users.admin, at.users.topics, at.brokers)
        assert victim in at.users.owners().values()
        at.watches(f"{name} without a drain", how)
        at.processes.start([victim])

    traffic = at.users.end()
    seen = {name: disturbance(traffic, *window) for name, window in at.windows.items()}
    for name, figures in seen.items():
        print(f"{name}: {figures}")
    outcomes = at.loop.outcomes()
    print(f"{len(outcomes)} moves of the drain: {pauses(outcomes, traffic, at.users.topics)}")
    assert nothing_was_lost(traffic)
    assert drained_by_commands_alone(at.loop, victim)
    for name in ("SIGTERM", "SIGKILL"):
        assert seen[f"{name} after the drain"].cut_off(victim) == []
        assert seen[f"{name} without a drain"].cut_off(victim)
    # A broker that may hand its few bundles over does so quickly.
    assert seen["SIGKILL without a drain"].clients


def test_a_drain_that_cannot_be_is_refused_with_one_sentence_and_nothing_changes(at: Scene) -> None:
    first, second, third, fourth = at.brokers
    refused(at, "unknown-broker", "10.9.8.7:8080")
    with bound(at, second):
        refused(at, "t/bound", second)

    at.processes.servers[third].kill()
    at.loop.wait_until(lambda: third not in at.users.admin.brokers(), "the cluster misses it")
    at.loop.wait_until(lambda: third not in at.loop.rounds()[-1].usage, "a round misses it")
    look_up(at.processes.cluster, at.users.topics.values())
    refused(at, ("not-live", "unknown-broker"), third)

    at.loop.stop("execute")  # else the two drains would move bundles
    for broker in (first, second):
        carried_out(at, "drain", broker, "--reason", "test", "--together", "--no-wait")
    at.loop.wait_until(lambda: len(at.operator.active("drain")) == 2, "a round has both drains")
    refused(at, "last-broker", fourth, "--together")


def test_replay_of_all_that_gives_the_same_bytes(at: Scene, tmp_path: Path) -> None:
    at.loop.stop("collect")
    print("intents:", Counter((one.action, one.state) for one in at.operator.intents()))
    assert_replay_is_identical(at.loop, tmp_path)


def carried_out(at: Scene, *words: str) -> str:
    """What a command of the operator says."""
    said = at.operator.runs(*words)
    print(said.text)
    assert said.code == 0
    return said.text


def drained_by_commands_alone(loop: Loop, broker: str) -> bool:
    """Every command is of the drain, leads away from the broker, and has one outcome."""
    commands = loop.commands()
    return (
        {(one.code, one.source) for one in commands} == {("drain", broker)}
        and all(one.destination != broker for one in commands)
        and every_command_has_one_outcome({one.id for one in commands}, loop)
    )


def refused(at: Scene, code: str | tuple[str, ...], broker: str, *more: str) -> None:
    """A drain ends with one sentence that has one of these words, and moves nothing."""
    owners, commands = at.users.owners(), commands_about(at, broker)
    said = at.operator.runs("drain", broker, "--reason", "test", *more)
    print(said.text)
    assert said.code == 1
    assert any(word in said.last_line for word in ([code] if isinstance(code, str) else code))
    assert "Traceback" not in said.text
    wait_for_rounds(2, at.loop)
    assert at.users.owners() == owners
    assert commands_about(at, broker) == commands
    assert broker not in [one.broker for one in at.operator.active("drain")]


def commands_about(at: Scene, broker: str) -> list[Command]:
    return [one for one in at.loop.commands() if one.source == broker]


@contextmanager
def bound(at: Scene, broker: str) -> Iterator[None]:
    """A namespace whose bundle no other broker may take, when rounds know that."""
    cluster = at.processes.cluster
    cluster.namespace("t/bound", 1)
    (range_,) = at.users.admin.ranges("t/bound")
    bundle = f"t/bound/{range_}"
    settle(cluster, at.users.admin, {bundle: topic_in(bundle)}, [broker])
    with isolation(cluster, "t/bound", [broker]):
        at.loop.wait_until(lambda: is_collected(at.loop), "the policy is collected")
        wait_for_rounds(2, at.loop)
        yield


def is_collected(loop: Loop) -> bool:
    """Whether a record of policies names the namespace."""
    policies = [one for one in loop.read("telemetry") if b'"kind":"policies"' in one]
    return any(b"t/bound" in one for one in policies)


@contextmanager
def scene(folder: Path, manager: Manager, **more: object) -> Iterator[Scene]:
    """Bundles are evenly at home on all brokers, and rounds see them. `more`: settings."""
    (folder / "cluster").mkdir()
    key = folder / "intents-key"
    key.write_text("the key of the people who drain", "utf-8")
    key.chmod(0o600)
    settings = {
        **SETTINGS,
        "filters__load_manager": manager,
        "signing__intents_key_file": key,
    } | more
    with pulsar_processes(folder / "cluster", manager, brokers=_BROKERS, guarded=True) as processes:
        cluster = processes.cluster
        with (
            closed_loop(folder / "loop", cluster.settings(folder), None, **settings) as loop,
            skewed_users(
                cluster,
                folder,
                "t/drained",
                bundles=_BUNDLES,
                msgs=_MSGS,
                weights=lambda names: [1.0] * len(names),
                homes=cluster.brokers,
            ) as users,
        ):
            loop.begin()
            all_are_seen(_BROKERS, loop)
            yield Scene(processes, users, loop, Operator(loop))
