"""The closed loop on a real cluster: brokers, clients, collector, Spark job and executor are
processes of their own.

`pytest tests/servers/test_closed_loop.py -rP` prints the figures.
"""

import gzip
import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.executor.journal import Journal
from strategies.cluster.model import Command
from tests.control_topic import TOPICS
from tests.lanes import variant
from tests.servers.verdicts import every_command_has_one_outcome, moves
from tests.unit.command_line import rebalancer
from tools.kills.compared_topics import compare
from tools.processes.loop import GOAL, Loop, closed_loop, on_pulsar
from tools.servers.kafka_broker import KafkaBroker
from tools.servers.pulsar_cluster import PulsarCluster, pulsar_cluster
from tools.servers.pulsar_processes import PulsarProcesses
from tools.traffic.skewed_users import Users, skewed_users, spread_of
from tools.traffic.traffic_log import TrafficLog, pauses

pytestmark = [pytest.mark.servers, pytest.mark.spark]


@pytest.fixture
def pulsar(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """Ends with its test: `make test` has no other on it, and an idle cluster costs a tenth of a
    core.
    """
    with pulsar_cluster(tmp_path_factory.mktemp("pulsar")) as cluster:
        yield cluster


@pytest.fixture
def guarded_pulsar(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """The same with the extensible load manager, and brokers that ask for tokens."""
    folder = tmp_path_factory.mktemp("guarded-pulsar")
    with pulsar_cluster(folder, "extensible", guarded=True) as cluster:
        yield cluster


@pytest.mark.essential
@pytest.mark.parametrize(
    ("kind", "topics"),
    [
        ("pulsar", "itself"),
        variant("guarded_pulsar", "itself"),
        pytest.param("guarded_pulsar", "kafka", marks=pytest.mark.slow),
    ],
)
def test_a_skewed_cluster_becomes_even_and_stays_so(
    cluster: PulsarCluster, topics: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The loop's own topics may lie on the very cluster that it balances."""
    folder, settings = tmp_path / "loop", cluster.settings(tmp_path)
    # The rule is the modular one's; the brokers may not be.
    filters = {"filters__load_manager": "extensible" if cluster.guarded else "modular"}
    if topics == "itself":
        looping = on_pulsar(folder, cluster, settings, **filters)
    else:
        kafka: KafkaBroker = request.getfixturevalue("kafka")
        uris = {name: kafka.topic(f"loop-{name}") for name in TOPICS}
        looping = closed_loop(folder, settings, uris, **filters)
    with looping as loop, busy_users(cluster, tmp_path, f"t/on-{topics}") as users:
        becomes_even_and_stays_so(users, loop)
        doctor_finds_it_well(loop)
        ends_well(users, loop, tmp_path)


def test_a_broker_that_joins_gets_its_share(modular: PulsarProcesses, tmp_path: Path) -> None:
    with (
        on_pulsar(tmp_path / "loop", modular.cluster, modular.cluster.settings(tmp_path)) as loop,
        busy_users(modular.cluster, tmp_path, "t/joined") as users,
    ):
        told("at the start", users)
        loop.begin()
        wait_until_even(users, loop)
        (newcomer,) = set(modular.servers) - set(users.load())
        modular.start([newcomer])
        told("a broker has joined", users)
        loop.wait_until(lambda: share(newcomer, users) > 0.4, "the newcomer has its share")
        told("it has its share", users)
        ends_well(users, loop, tmp_path)


@pytest.mark.slow
def test_executor_job_and_broker_are_killed_in_the_middle_and_the_loop_goes_on(
    modular: PulsarProcesses, tmp_path: Path
) -> None:
    settings = modular.cluster.settings(tmp_path)
    # Little by little, so that there are unloads in several rounds.
    slowly = closed_loop(
        tmp_path / "loop", settings, shedding__uniform__max_unload=0.25, executor__max_concurrent=1
    )
    with slowly as loop, skewed_users(modular.cluster, tmp_path, "t/killed") as users:
        told("at the start", users)
        loop.begin()
        interrupted = kill_executor_during_an_unload(modular, loop)
        loop.start("execute")

        published = len(loop.commands())
        loop.wait_until(lambda: len(loop.commands()) > published, "the next commands", 0.01)
        loop.kill("run")
        loop.start("run")
        victim, held = kill_broker_during_an_unload(modular, loop, interrupted)
        last = loop.commands()[-1]
        loop.wait_until(lambda: victim not in users.load(), "the cluster notices")
        told(f"without {victim}", users)
        loop.wait_until(
            lambda: users.spread() < GOAL or moved_since(last.round, loop), "the loop goes on"
        )
        wait_for_rounds(1, loop)
        told("the loop goes on", users)
        given = all_have_outcomes(loop)
        loop.stop("collect", "execute")
        modular.start([victim])
        traffic = users.end()
        assert_replay_is_identical(loop, tmp_path)
    print(Counter((one.status, one.reason) for one in loop.outcomes()))
    outcomes = {one.command_id: (one.status, one.reason) for one in loop.outcomes()}
    for killed, ids in (("the executor", interrupted), ("the broker", held)):
        print(f"under way when {killed} was killed:", [outcomes[id_] for id_ in sorted(ids)])
    assert nothing_was_lost(traffic)
    assert every_command_has_one_outcome(given, loop)
    assert unloaded_as_often_as_commanded(modular, loop)


def all_are_seen(brokers: int, loop: Loop) -> None:
    """Waits until a round knows the usage of this number of brokers."""
    loop.wait_until(lambda: any(len(one.usage) == brokers for one in loop.rounds()), "all are seen")


def all_have_outcomes(loop: Loop) -> set[str]:
    """Waits for that; the ids of all commands."""
    loop.wait_until(lambda: len(loop.outcomes()) >= len(loop.commands()), "all have outcomes")
    return {one.id for one in loop.commands()}


def own_shedder(ratio: str) -> dict[str, str]:
    """Of broker.conf: Pulsar's UniformLoadShedder, which acts from this ratio of throughputs on."""
    return {
        "loadBalancerLoadSheddingStrategy": (
            "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
        ),
        "loadBalancerMsgRateDifferenceShedderThreshold": "0",
        "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": ratio,
        "maxUnloadPercentage": "0.5",
        "minUnloadMessageThroughput": "1000",
    }


def busy_users(
    cluster: PulsarCluster, folder: Path, namespace: str
) -> AbstractContextManager[Users]:
    """So much traffic that what the loop itself reads and writes there is little beside it."""
    return skewed_users(cluster, folder, namespace, message_bytes=4096)


def ends_well(users: Users, loop: Loop, folder: Path) -> None:
    """Ends loop and users: decided once more, all is the same; nothing was lost, and no bundle
    moved twice.
    """
    loop.stop("collect", "execute")
    traffic = users.end()
    assert_replay_is_identical(loop, folder)
    assert nothing_was_lost(traffic)
    assert moved_at_most_once(loop, users, traffic)


def doctor_finds_it_well(loop: Loop) -> None:
    """Beside the running programs; and not well without them."""
    loop.wait_until(
        lambda: rebalancer("doctor", "--health", *loop.words).code == exit_codes.OK, "a fresh round"
    )
    examined = rebalancer("doctor", "--no-spark-start", "--json", *loop.words).json
    found = {one["check"]: one for one in examined["findings"]}
    assert {found[check]["status"] for check in ("job", "checkpoint", "executor")} == {"ok"}
    assert "last round" in found["job"]["text"]
    assert "is in use by a running executor" in found["executor"]["text"]


def kill_executor_during_an_unload(modular: PulsarProcesses, loop: Loop) -> set[str]:
    """Ids of the commands that it was carrying out, by its journal."""
    while True:
        loop.wait_until(lambda: bool(under_way(modular, loop)), "an unload is under way", 0.01)
        loop.kill("execute")
        with closing(Journal(loop.folder / "state")) as journal:
            if ids := {entry.received.id for entry in journal.unfinished() if entry.status is None}:
                return ids
        loop.start("execute")


def kill_broker_during_an_unload(
    modular: PulsarProcesses, loop: Loop, besides: set[str]
) -> tuple[str, set[str]]:
    """The broker, and the commands that it had to carry out, `besides` those known: while it stands
    still, it finishes none.
    """
    while True:
        loop.wait_until(
            lambda: bool(under_way(modular, loop, besides)), "an unload is under way", 0.01
        )
        for broker in {one.source for one in under_way(modular, loop, besides)}:
            modular.servers[broker].pause()
            if ids := {one.id for one in under_way(modular, loop, besides) if one.source == broker}:
                modular.servers[broker].kill()
                return broker, ids
            modular.servers[broker].resume()


def under_way(modular: PulsarProcesses, loop: Loop, besides: Collection[str] = ()) -> list[Command]:
    """A broker was asked for the unload, by its log, and there is no outcome yet."""
    told = {one.command_id for one in loop.outcomes()}.union(besides)
    return [
        one
        for one in loop.commands()
        if one.id not in told and modular.logged(rf"{re.escape(one.bundle)}/unload\?")
    ]


def becomes_even_and_stays_so(users: Users, loop: Loop) -> None:
    """On a busy machine, a round that corrects what older figures asked for may follow the first
    even one: what stays even is the cluster that a round leaves alone.
    """
    told("at the start", users)
    assert users.spread() > GOAL
    loop.begin()
    wait_until_even(users, loop, left_alone=True)
    told("balanced", users)
    wait_for_rounds(2, loop)
    told("two rounds later", users)
    assert users.spread() < GOAL


def wait_until_even(users: Users, loop: Loop, *, left_alone: bool = False) -> None:
    """By what brokers own and producers send, not by the figures the loop itself works with.
    `left_alone`: and the newest round has no command.
    """
    everything = 0.99 * sum(users.rates.values())

    def even() -> bool:
        load = users.load()
        return (
            sum(load.values()) > everything
            and spread_of(load) < GOAL
            and not (left_alone and loop.rounds()[-1].commands)
        )

    loop.wait_until(even, "it is even")


def share(broker: str, users: Users) -> float:
    """A live broker's traffic, 1.0 for the mean of all."""
    load = users.load()
    return load.get(broker, 0.0) * len(load) / sum(users.rates.values())


def wait_for_rounds(more: int, loop: Loop) -> None:
    before = loop.count("rounds")
    loop.wait_until(lambda: loop.count("rounds") >= before + more, f"{more} more rounds")


def told(when: str, users: Users) -> None:
    load = users.load()
    rates = ", ".join(f"{load[broker]:.0f}" for broker in sorted(load))
    print(f"{when}: spread {users.spread():.2f}; msg/s by broker: {rates}")


def nothing_was_lost(traffic: TrafficLog) -> bool:
    counts = f"lost: {traffic.lost}, {traffic.doubled} came twice, {traffic.failed} refused"
    print(f"{traffic.acknowledged} messages acknowledged, {counts}")
    return traffic.acknowledged > 1000 and not traffic.lost


def moved_at_most_once(loop: Loop, users: Users, traffic: TrafficLog) -> bool:
    """The whole test is shorter than the cool-down."""
    outcomes = loop.outcomes()
    print(f"{len(loop.rounds())} rounds, {len(outcomes)} moves")
    print(pauses(outcomes, traffic, users.topics))
    return set(moves(loop).values()) == {1}


def moved_since(number: int, loop: Loop) -> bool:
    """Whether a command of a later round was carried out."""
    later = {one.id for one in loop.commands() if one.round > number}
    return any(one.command_id in later and one.status == "applied" for one in loop.outcomes())


def unloaded_as_often_as_commanded(modular: PulsarProcesses, loop: Loop) -> bool:
    """By the brokers' own logs: the request that is not passed on is the one that unloads. A
    repair, and an unload that a death left in doubt, is a second one.
    """
    commanded = Counter(bundle for bundle, _ in {(one.bundle, one.id) for one in loop.commands()})
    again = {(one.bundle, one.command_id) for one in loop.outcomes() if one.cost.unloads == 2}
    commanded.update(bundle for bundle, _ in sorted(again))
    return all(modular.unloads(bundle) <= count for bundle, count in commanded.items())


def assert_replay_is_identical(loop: Loop, folder: Path) -> None:
    """What is recorded of the live loop, decided once more without Spark; the job is left to work
    off the rest, and ends.
    """
    recording, replayed = folder / "live.jsonl.gz", folder / "replayed"
    assert rebalancer("record", recording, *loop.words).code == 0
    assert gzip.decompress(recording.read_bytes()).splitlines() == loop.read("telemetry")
    assert rebalancer("replay", recording, "--out", replayed, *loop.words).code == 0
    wanted = {
        topic: (replayed / f"{topic}.jsonl").read_bytes().splitlines()
        for topic in ("commands", "rounds")
    }
    loop.wait_until(
        lambda: loop.read("rounds")[-1:] == wanted["rounds"][-1:],
        "the job has worked off all there is",
    )
    loop.stop("run")
    for topic, lines in wanted.items():
        assert compare(topic, loop.read(topic), lines).faults == ()
