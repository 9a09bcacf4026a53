"""The decision benchmark: its cluster is the published one, its decisions are those of a round, and
it runs; no look at the times.
"""

import json
import os
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import java_decisions
from benchmarks.bench_input import NOW_MS, ROUND, Cluster, Size, cluster, draws
from benchmarks.decisions import MODES, SETTINGS, built, measure, memory_of
from benchmarks.java_decisions import decided_by
from strategies.averages.bundle_averages import unpack_history
from strategies.cluster.cluster_state import Clock, ClusterState
from strategies.cluster.model import Command, Sweep
from strategies.cluster.strategy_memory import NO_MEMORY
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS

pytestmark = pytest.mark.lab


@cache
def made_up(brokers: int, bundles: int) -> Cluster:
    return cluster(Size(brokers, bundles))


def test_the_first_draws_are_those_of_the_recipe() -> None:
    # 42 · 25214903917 + 11 = 1059025964525 = 16159453 · 2^16 + 51949; the next state follows from
    # it in the same way.
    second = (1059025964525 * 25214903917 + 11) % 2**48
    assert list(islice(draws(), 2)) == [16159453 / 2**32, second // 2**16 / 2**32]


def test_brokers_and_bundles_are_those_of_the_recipe() -> None:
    given = made_up(10, 30)
    draw = draws()
    first, last = given.brokers[0], given.brokers[9]
    table = unpack_history(given.store.get_table(first.broker) or b"").loads()

    assert first.broker == "broker-0.pulsar.local:8080"
    assert first.figures.cpu.usage == (90 + 8 * next(draw)) * 8
    assert first.figures.cpu.limit == 800
    assert 40 <= last.figures.cpu.usage / 8 < 60
    assert table.names[0] == "tenant-0/ns-0/0x00000000_0x55555555"
    assert table.names[2] == "tenant-0/ns-0/0xaaaaaaaa_0xffffffff"
    throughput_in, throughput_out, rate_in, rate_out = islice(draw, 4)
    assert table.short[0].tolist() == [
        6000 * rate_in,
        12000 * rate_out,
        8e6 * throughput_in,
        16e6 * throughput_out,
    ]
    assert table.long.tolist() == table.short.tolist()
    rates = table.short[:, 0].tolist()
    assert first.figures.traffic.msg_rate_in == rates[0] + rates[1] + rates[2]
    assert first.figures.bundle_count == 3


@pytest.mark.parametrize(
    ("strategy", "picked", "sources"),
    [
        ("threshold", (116, 121), 5),
        ("avg", (30, 31), 5),
        ("uniform", (7, 7), 1),
        ("overload", (39, 39), 5),
    ],
)
def test_as_many_bundles_leave_as_the_java_classes_chose(
    strategy: str, picked: tuple[int, int], sources: int
) -> None:
    for brokers, expected in zip((100, 1000), picked, strict=True):
        cost, decided = measure(made_up(brokers, 100 * brokers), strategy, "parity", calls=1)
        assert (cost.picked, cost.sources) == (expected, sources)
        assert len(decided.decisions) == expected


@pytest.mark.parametrize("strategy", SHEDDERS)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_measured_is_what_a_round_decides(strategy: str, mode: Mode) -> None:
    given = cluster(Size(20, 400))
    before = ClusterState(Clock(NOW_MS), None, round=ROUND - 1, joined=20, live=20)
    given.store.put_cluster(replace(before, round_at_ms=NOW_MS - 60_000))
    engine = Engine(EngineSettings(strategy, mode, SETTINGS.get(strategy)))
    memory = memory_of(given, strategy, built(strategy, mode))
    for state in given.brokers:
        given.store.put_broker(replace(state, memory=memory.brokers.get(state.broker, NO_MEMORY)))
    _, decided = measure(given, strategy, mode, calls=1)
    names = tuple(state.broker for state in given.brokers)
    events = engine.fold(Sweep("bench", NOW_MS, 1, names, {}), given.store)

    commands = [event for event in events if isinstance(event, Command)]
    assert commands
    assert [(command.source, command.bundle) for command in commands] == [
        (source, bundle) for source, bundle, _ in decided_by(decided)
    ]


def test_without_a_jdk_the_comparison_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        java_decisions.main(["--sizes", "10x40"], {"PATH": str(tmp_path)})
    assert "JDK" in str(ended.value.code)


@pytest.mark.slow
def test_the_java_classes_decide_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Ends with a sentence where there is no JDK or no network; that is a failure here, because
    nothing was compared.
    """
    java_decisions.main(
        ["--sizes", "20x400", "60x1500", "--calls", "1", "--java-calls", "1", "--json"], os.environ
    )
    compared = json.loads(capsys.readouterr().out)["compared"]
    assert len(compared) == 2 * len(java_decisions.STRATEGIES)
    assert all(one["identical"] and one["picked"] for one in compared)
