"""`rebalancer roll` over all brokers of a real cluster, while the load changes and one bundle is
hot; and with programs and a broker killed at random.

`pytest tests/servers/test_roll.py -rP` prints the figures.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from sinks.wire.record_decoding import decode_outcome
from strategies.cluster.intent_records_and_states import LASTING
from strategies.cluster.model import Round
from tests.servers.test_closed_loop import (
    all_are_seen,
    all_have_outcomes,
    assert_replay_is_identical,
    nothing_was_lost,
    told,
)
from tests.servers.verdicts import every_command_has_one_outcome, verdicts
from tools.processes.loop import GOAL, Loop, closed_loop
from tools.processes.operating import Operator
from tools.processes.process import Process
from tools.servers.pulsar_cluster import Manager, PulsarCluster
from tools.servers.pulsar_processes import pulsar_processes
from tools.servers.supervisor import Supervisor, most_at_a_time, supervised
from tools.traffic.skewed_users import Users, skewed_users
from tools.traffic.traffic_log import disturbance, pauses

pytestmark = [pytest.mark.servers, pytest.mark.spark]
_SLOW = pytest.mark.slow
_BROKERS, _BUNDLES, _MSGS = 4, 24, 160.0
#: The hot bundle's messages by those of an idle one; half of a broker's share.
_HOT = 5.0
_LONG_S = 1_800.0
#: Pulsar's default, for a broker that loses its session on a busy machine loses its bundles, and
#: may still serve them when others have taken them.
_SESSION_MS = 30_000
#: When programs and a broker are killed, s after the roll has begun.
_KILLS_S = (2.0, 75.0)
SETTINGS = {
    "round__interval_ms": 2_500,
    "round__lateness_ms": 1_500,
    "round__stale_after_ms": 15_000,
    # Bundles that a drain has moved may be needed to even out.
    "round__cool_down_ms": 20_000,
    "collector__pass_interval_ms": 1_000,
    # A broker that a roll restarts counts as lost for the executor.
    "executor__settle_ms": 5_000,
}
Victim = Literal["run", "execute", "roll", "broker"]
_VICTIMS: tuple[Victim, ...] = ("run", "execute", "roll", "broker")
Kill = tuple[float, Victim]


@dataclass
class Rolling:
    """A roll of all brokers beside users whose load changes. `before`: bundle → how often it had
    been unloaded; `said`: what the processes of the roll have printed.
    """

    supervisor: Supervisor
    loop: Loop
    users: Users
    operator: Operator
    before: Mapping[str, int]
    said: list[str] = field(default_factory=list)
    _process: Process | None = None
    _changed: bool = False

    def starts(self, *words: str) -> None:
        command = ("--restart-command", self.supervisor.command, "--restart-timeout", "600")
        # Rounds of 2 s are short beside the 5 s over which these brokers calculate rates.
        rounds = ("--even-rounds", "10")
        self._process = self.operator.begins("roll", *words, *command, *rounds).__enter__()

    def _knows_all_brokers(self) -> bool:
        newest = [json.loads(one)["brokers"] for one in self.loop.read("rounds")[-3:]]
        return [len(brokers) for brokers in newest] == [_BROKERS] * 3

    def until_done(self, kills: Sequence[Kill], random: Random) -> None:
        """Kills at their times, and resumes what has halted; the load changes after the first
        restart.
        """
        # A broker of the extensible load manager may withdraw its first figures.
        self.loop.wait_until(self._knows_all_brokers, "three rounds in a row know all brokers")
        self.starts("--reason", "kernel update")
        self.loop.wait_until(lambda: bool(self.operator.active("roll")), "a round has the roll")
        began, left = time.monotonic(), list(kills)
        while self._goes_on():
            assert time.monotonic() < began + _LONG_S, f"no end; see {self.loop.folder}"
            if not self._changed and self.supervisor.restarted:
                self.users, self._changed = self.users.changed(), True
                told("after the change", self.users)
            if left and time.monotonic() >= began + left[0][0]:
                self._kill(left.pop(0)[1], random)
            time.sleep(0.3)
        assert (self._changed, left) == (True, []), "the roll was too quick for its test"
        print(f"done after {time.monotonic() - began:.0f} s, {len(self.said)} processes")

    def close(self) -> None:
        if self._process is not None:
            self._process.__exit__()

    def _goes_on(self) -> bool:
        """Whether the roll is not done; one that has halted is resumed."""
        assert self._process is not None
        self.supervisor.check()
        if self._process.runs:
            return True
        code = self._process.ended()
        self._read()
        if code == 0 or self._is_done():
            return False
        self._resume()
        return True

    def _is_done(self) -> bool:
        """Whether a process was killed, or resumed in vain, when the roll had ended already."""
        rolls = [one.state for one in self.operator.intents() if one.action == "roll"]
        return rolls == ["done"]

    def _resume(self) -> None:
        """As the last words of the process before say, if it could say any."""
        last = self.said[-1].rstrip().rpartition("\n")[2]
        again = re.findall(r"--restart-again (\S+?)`", last)
        self.starts("--resume", *(word for one in again for word in ("--restart-again", one)))

    def _read(self) -> None:
        assert self._process is not None
        self.said.append(self._process.said)
        self._process.__exit__()
        print(self.said[-1])

    def _kill(self, victim: Victim, random: Random) -> None:
        print(f"kill -9: {victim}")
        match victim:
            case "run" | "execute":
                self.loop.kill(victim)
                self.loop.start(victim)
            case "broker":
                self.supervisor.kill(random.choice(self._not_at_turn()))
            case "roll":
                assert self._process is not None
                self._process.kill()
                self._read()
                self._resume()

    def _not_at_turn(self) -> list[str]:
        return [
            broker
            for roll in self.operator.active("roll")
            for broker, phase in sorted(roll.phases.items())
            if phase in ("waiting", "restarted")
        ]


def kills_of(seed: int) -> list[Kill]:
    """Each sort of process once, at random times."""
    random = Random(seed)
    victims = random.sample(_VICTIMS, len(_VICTIMS))
    return list(zip(sorted(random.uniform(*_KILLS_S) for _ in victims), victims, strict=True))


@pytest.fixture(scope="module", params=["modular", pytest.param("extensible", marks=_SLOW)])
def manager(request: pytest.FixtureRequest) -> Manager:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def supervisor(
    jdk: None, manager: Manager, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Supervisor]:
    """Of four brokers that tests restart and kill."""
    folder = tmp_path_factory.mktemp("rolled")
    (folder / "cluster").mkdir()
    more = {
        "forceDeleteNamespaceAllowed": "true",
        "metadataStoreSessionTimeoutMillis": str(_SESSION_MS),
    }
    with (
        pulsar_processes(
            folder / "cluster", manager, brokers=_BROKERS, guarded=True, more=more
        ) as processes,
        supervised(processes, folder / "supervisor") as made,
    ):
        yield made


def test_all_brokers_are_restarted_one_after_the_other_under_a_changing_load(
    supervisor: Supervisor, manager: Manager, tmp_path: Path
) -> None:
    with rolling(supervisor, manager, tmp_path, "t/rolled") as roll:
        leader = roll.users.admin.leader()
        roll.until_done([], Random(0))
        assert len(roll.said) == 1
        assert supervisor.restarted[-1].broker == leader
        ends_well(roll, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_killed_programs_and_brokers_stop_no_roll(
    supervisor: Supervisor, manager: Manager, seed: int, tmp_path: Path
) -> None:
    with rolling(supervisor, manager, tmp_path, f"t/rolled-{seed}") as roll:
        roll.until_done(kills_of(seed), Random(seed))
        ends_well(roll, tmp_path)


def ends_well(roll: Rolling, folder: Path) -> None:
    """What has to be true after a roll that is done."""
    loop, supervisor = roll.loop, roll.supervisor
    brokers = supervisor.processes.cluster.brokers
    told("at the end", roll.users)
    last = loop.rounds()[-1]
    print("the last round:", last.state, last.spread)
    assert [one.state for one in last.intents if one.action == "roll"] == ["done"]
    assert "balanced" in states_when_all_are_restarted(loop)  # by the strategy's own figures
    assert roll.users.spread() < GOAL
    given = all_have_outcomes(loop)
    loop.stop("collect", "execute")
    traffic = roll.users.end()
    assert_replay_is_identical(loop, folder)

    print(f"restarts {dict(supervisor.restarts)}, at most", most_at_a_time(supervisor.restarted))
    print(Counter((one.status, one.reason) for one in loop.outcomes()))
    print(f"{len(loop.rounds())} rounds, {len(given)} commands")
    cut_off: list[str] = []
    for one in supervisor.restarted:
        seen = disturbance(traffic, one.since, one.until)
        print(f"{one.broker} restarted: {seen}")
        cut_off += (f"{one.broker} was restarted: {client}" for client in seen.cut_off(one.broker))
    for one in supervisor.killed:
        print(f"{one.broker} killed: {disturbance(traffic, one.since, one.until)}")
    print("moves:", pauses(loop.outcomes(), traffic, roll.users.topics))
    assert nothing_was_lost(traffic)
    lost = supervisor.processes.logged("PulsarService .* session event: SessionLost")
    why = "\n".join([*cut_off, f"brokers have lost their sessions {lost} times"])
    assert supervisor.killed or cut_off == [], why
    assert supervisor.restarts.keys() | killed_in_their_turn(roll) == set(brokers)
    assert set(supervisor.restarts.values()) == {1}
    assert most_at_a_time(supervisor.restarted) == 1
    assert every_command_has_one_outcome(given, loop)
    assert unloaded_as_often_as_outcomes_say(roll)
    assert max(len(drained_in(one)) for one in loop.rounds()) == 1
    assert no_draining_broker_takes_a_bundle(loop)


def killed_in_their_turn(roll: Rolling) -> set[str]:
    """Brokers that were killed, and came back after the roll had announced their restart: it runs
    no command if it finds that they have gone and come back.
    """
    records = [json.loads(value) for value in roll.loop.read("telemetry")]
    turns = {one["broker"]: one["ts"] for one in records if one.get("action") == "restarting"}
    killed = roll.supervisor.killed
    return {one.broker for one in killed if turns.get(one.broker, one.until) < one.until}


def unloaded_as_often_as_outcomes_say(roll: Rolling) -> bool:
    """By the brokers' own logs; at most once more than commanded where a move was repaired."""
    told = verdicts(roll.loop).items()
    outcomes = {id_: decode_outcome(value) for id_, values in told for value in values}
    allowed = Counter[str]()
    for bundle, id_ in {(one.bundle, one.id) for one in roll.loop.commands()}:
        allowed[bundle] += max(1, (outcomes[id_].cost.unloads if id_ in outcomes else 1) or 1)
    processes, bundles = roll.supervisor.processes, roll.users.topics
    done = Counter({one: processes.unloads(one) - roll.before[one] for one in bundles})
    print(f"unloads: {done.total()}, allowed {allowed.total()}")
    return done <= allowed and all((one.cost.unloads or 0) <= 2 for one in outcomes.values())


def states_when_all_are_restarted(loop: Loop) -> list[str]:
    """Codes of the rounds after the last restart."""
    return [
        one.state.code
        for one in loop.rounds()
        for roll in one.intents
        if roll.action == "roll" and set(roll.phases.values()) == {"restarted"} and one.state
    ]


def drained_in(done: Round) -> set[str]:
    """Brokers that take nothing, by a round."""
    return {
        one.broker
        for one in done.intents
        if one.action == "drain" and one.state in LASTING and one.broker is not None
    }


def no_draining_broker_takes_a_bundle(loop: Loop) -> bool:
    drained = {(one.epoch, one.round, name) for one in loop.rounds() for name in drained_in(one)}
    taken = {(one.epoch, one.round, one.destination) for one in loop.commands()}
    return not taken & drained


@contextmanager
def rolling(
    supervisor: Supervisor, manager: Manager, folder: Path, namespace: str
) -> Iterator[Rolling]:
    """Users of a cluster that is balanced by a loop; all brokers are seen."""
    supervisor.forget()
    processes = supervisor.processes
    cluster = processes.cluster
    settings = {**SETTINGS, "filters__load_manager": manager}
    with (
        gone_at_the_end(cluster, namespace),
        closed_loop(folder / "loop", cluster.settings(folder), None, **settings) as loop,
        skewed_users(
            cluster,
            folder,
            namespace,
            bundles=_BUNDLES,
            msgs=_MSGS,
            homes=cluster.brokers,
            weights=lambda names: weights(names, shift=0),
            later=lambda names: weights(names, shift=8),
        ) as users,
    ):
        before = {bundle: processes.unloads(bundle) for bundle in users.topics}
        loop.begin()
        all_are_seen(_BROKERS, loop)
        told("at the start", users)
        with closing(Rolling(supervisor, loop, users, Operator(loop), before)) as made:
            yield made


@contextmanager
def gone_at_the_end(cluster: PulsarCluster, namespace: str) -> Iterator[None]:
    try:
        yield
    finally:
        cluster.delete(f"namespaces/{namespace}?force=true")


def weights(names: Sequence[str], shift: int) -> list[float]:
    """The one in the middle is hot, of the others some have twice as much as others; a shift
    changes which.
    """
    return [
        _HOT if number == len(names) // 2 else 1.0 + ((number + shift) // 4 % 4) / 3
        for number in range(len(names))
    ]
