"""SteadyShedder beside AvgShedder and UniformLoadShedder on the same four real brokers, from the
same start: which one leaves the brokers' CPU more even, and with how many moves.

Each broker has a control group, so its reports show its own CPU. The network of brokers on loopback
shows nothing, and counts nothing here. The figures compared are the CPU times that the kernel
accounts for, not those that the loop itself works with. `-rP` prints them.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from tests.servers.test_closed_loop import all_have_outcomes, wait_for_rounds
from tools.processes.loop import Loop, closed_loop
from tools.processes.operating import Operator
from tools.servers.control_groups import ControlGroup, can_make_groups, control_groups
from tools.servers.pulsar_processes import CPU_SECONDS, PulsarProcesses, pulsar_processes
from tools.traffic.skewed_users import Users, skewed_users
from tools.traffic.traffic_log import TrafficLog

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]

#: Of each broker; messages per second of the brokers' bundles at the start.
CORES, SENT = 0.3, (900.0, 300.0, 100.0, 50.0)
#: Small: the storage of a test cluster stalls when it has to write much.
MESSAGE_BYTES = 100
#: Each strategy has this number of rounds, in parts that a loop waits for.
ROUNDS, _PARTS = 45, 3
_MEASURED_S = 30
#: Strategies have their own defaults, except for times, which are those of brokers that measure
#: every ten seconds, and for the least traffic that is worth moving, which is more than there is.
#: A sample is three reports: a bundle costs its new owner more for about a minute, until its JVM
#: has warmed up.
SETTINGS: Mapping[str, object] = {
    "round__interval_ms": 1000 * CPU_SECONDS,
    "round__lateness_ms": 5_000,
    "round__stale_after_ms": 30_000,
    "weights__cpu": 1,
    "weights__bandwidth_in": 0,
    "weights__bandwidth_out": 0,
    "shedding__steady__sample_seconds": 3 * CPU_SECONDS,
    "shedding__avg__min_msg_rate": 10,
    "shedding__avg__min_throughput": 10_000,
    "shedding__uniform__min_msg_rate": 10,
    "shedding__uniform__min_throughput": 10_000,
}


@dataclass(frozen=True)
class Brokers:
    """Four brokers and the control group of each, in the same order."""

    processes: PulsarProcesses
    groups: tuple[ControlGroup, ...]

    def usages(self) -> list[float]:
        """Percent of the CPU that each broker may use, from now on for a while."""
        before = [group.used_s for group in self.groups]
        time.sleep(_MEASURED_S)
        return [
            100 * (group.used_s - used) / (CORES * _MEASURED_S)
            for group, used in zip(self.groups, before, strict=True)
        ]


@dataclass(frozen=True)
class End:
    """The brokers' CPU usages at the end, percent, and the number of moves until then."""

    usages: list[float]
    moves: int

    @property
    def spread(self) -> float:
        """As part of the mean: a message costs more CPU while the machine is busy otherwise."""
        return spread_of(self.usages)


@pytest.fixture(scope="module")
def brokers(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    if not can_make_groups():
        pytest.skip("CPU of a single broker needs control groups of version 1, and root")
    folder = tmp_path_factory.mktemp("steady")
    with (
        control_groups("rebalancer", 4) as groups,
        pulsar_processes(folder, brokers=4, groups=groups) as processes,
    ):
        for group in groups:  # not before: a broker needs much more for its start
            group.limit(CORES)
        yield Brokers(processes, groups)


def test_steady_ends_more_even_than_avg_which_stops_early_and_uniform_which_moves_all(
    brokers: Brokers, tmp_path: Path
) -> None:
    """With no more moves (benchmarks/README.md has the figures of a run)."""
    steady, avg, uniform = (
        balanced_by(name, brokers, tmp_path / name) for name in ("steady", "avg", "uniform")
    )
    assert steady.moves
    assert steady.spread < avg.spread
    assert steady.spread < uniform.spread
    assert steady.moves <= uniform.moves


def test_usage_after_a_move_is_as_shown(brokers: Brokers, tmp_path: Path) -> None:
    """Within 5 points, by what SteadyShedder has learned about traffic; it moves nothing here. The
    bundle has a tenth of its broker's traffic.
    """
    cluster = brokers.processes.cluster
    alone = {"shedding__strategy": "steady", "limits__excluded_namespaces": "t/shown"}
    with (
        closed_loop(
            tmp_path / "loop", cluster.settings(tmp_path), None, **SETTINGS, **alone
        ) as loop,
        skewed_users(
            cluster,
            tmp_path,
            "t/shown",
            bundles=32,
            msgs=1,
            shares=[rate / 4 for rate in SENT],  # a full broker would show no more
            scattered=0.5,
            homes=cluster.brokers,
            message_bytes=MESSAGE_BYTES,
        ) as users,
    ):
        loop.begin()
        wait_for_rounds(18, loop)
        bundle = min(users.rates, key=lambda one: abs(users.rates[one] - SENT[0] / 4 / 10))
        said = Operator(loop).runs(
            "move", bundle, "--to", cluster.brokers[3], "--reason", "test", "--yes", "--json"
        )
        wait_for_rounds(18, loop)
        (row,) = json.loads(said.text[said.text.index("{") : said.text.rindex("}") + 1])["moves"]
        source, expected = row["present"]["broker"], row["expected"]
        usages = [one.usage for one in loop.rounds()[-9:]]
        for one in loop.rounds():
            print(one.round, [round(value, 2) for _, value in sorted(one.usage.items())])
    for broker, name in ((source, "source"), (row["destination"], "destination")):
        seen = median(usage[broker] for usage in usages)
        print(f"{name}: {expected[f'{name}_before']:.3f}, expected", end=" ")
        print(f"{expected[f'{name}_after']:.3f}, then {seen:.3f}")
        assert abs(seen - expected[f"{name}_after"]) <= 0.05


def balanced_by(strategy: str, brokers: Brokers, folder: Path) -> End:
    cluster = brokers.processes.cluster
    folder.mkdir()
    looping = closed_loop(
        folder / "loop", cluster.settings(folder), None, shedding__strategy=strategy, **SETTINGS
    )
    with (
        looping as loop,
        skewed_users(
            cluster,
            folder,
            f"t/{folder.name}",
            bundles=32,
            msgs=1,
            shares=SENT,
            homes=cluster.brokers,
            message_bytes=MESSAGE_BYTES,
        ) as users,
    ):
        start = brokers.usages()
        told(f"{strategy}, at the start", start, users)
        loop.begin()
        for _ in range(_PARTS):
            wait_for_rounds(ROUNDS // _PARTS, loop)
        usages = brokers.usages()
        told(f"{strategy}, at the end", usages, users)
        loop.stop("collect", "run")
        all_have_outcomes(loop)
        loop.stop("execute")
        traffic = users.end()
    return checked(loop, usages, traffic)


def spread_of(usages: list[float]) -> float:
    return (max(usages) - min(usages)) * len(usages) / sum(usages)


def checked(loop: Loop, usages: list[float], traffic: TrafficLog) -> End:
    """Fails if anything was lost, or a bundle moved twice."""
    applied = {one.command_id for one in loop.outcomes() if one.status == "applied"}
    moved = Counter(one.bundle for one in loop.commands() if one.is_move and one.id in applied)
    print(
        f"{len(loop.rounds())} rounds, {moved.total()} moves, "
        f"{traffic.acknowledged} messages acknowledged, lost: {traffic.lost}"
    )
    assert not traffic.lost
    assert set(moved.values()) <= {1}
    return End(usages, moved.total())


def told(when: str, usages: list[float], users: Users) -> None:
    load = users.load()
    cpu = ", ".join(f"{one:.0f}" for one in usages)
    rates = ", ".join(f"{load[one]:.0f}" for one in sorted(load))
    print(f"{when}: CPU {cpu} %, spread {spread_of(usages):.2f} of the mean; msg/s {rates}")
