"""`rebalancer backtest` with other brokers, traffic or isolation policies than were recorded."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sin
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsar_rebalancer.lab.backtest.reassigned import Idle
from pulsar_rebalancer.lab.backtest.run import BacktestJob
from pulsar_rebalancer.lab.backtest.start_elsewhere import unloaded_namespaces
from pulsar_rebalancer.lab.backtest.what_if import WhatIf, changed, idle_usage, read_what_if
from pulsar_rebalancer.lab.simulation.noise import Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    PolledCluster,
    closed_loop,
)
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from pulsar_rebalancer.settings.merge_sources import load
from sinks.recordings.columnar_reading import read_blocks
from sinks.recordings.copy_topic import converted
from sinks.wire.record_decoding import DEFAULT_LIMITS
from strategies.bundles import namespace_of
from strategies.cluster.model import BundleStats, Figures, LoadReport, Sweep
from tests.architecture.command_line import ROOT
from tests.modelled import carry, steady_cluster
from tests.unit.command_line import rebalancer
from tests.world.backtests import run

pytestmark = pytest.mark.lab
IDLE = 0.08
MACHINE = Machine(cores=4, cpu_idle=100 * IDLE, cpu_per_kmsg=2)
BROKERS = tuple(f"broker-{number}:8080" for number in range(4))
BUNDLES = tuple(f"t/{'ab'[number % 2]}/0x{number:08x}_0x{number + 1:08x}" for number in range(24))
SETTINGS = load(flags=["shedding.strategy=steady"])
#: Broker → its report, of one pass; bundle, source and destination.
Pass = Mapping[str, LoadReport]
Move = tuple[str, str | None, str | None]


def policy(namespaces: Sequence[str], primary: Sequence[str], **more: Any) -> Mapping[str, Any]:
    limit = {"policy_type": "min_available", "parameters": {"min_limit": "1"}}
    found = {"namespaces": [*namespaces], "primary": [*primary], "secondary": []}
    return {**found, "auto_failover_policy": limit, **more}


@dataclass(frozen=True)
class Model:
    """Clusters of the same machines and rates. Bundles differ by so much that no two moves are
    equally good, every pass is a new sample, and the first bundle grows.
    """

    rates: Sequence[float] = tuple(1500.0 * 1.1**place for place in range(24))
    machines: Mapping[str, Machine] = field(default_factory=lambda: dict.fromkeys(BROKERS, MACHINE))
    growth: float = 20.0

    def cluster(self, owners: Mapping[str, str], brokers: Sequence[str] = BROKERS) -> PolledCluster:
        machines = {broker: self.machines[broker] for broker in brokers}
        chance = Wobble(traffic_part=0, cpu_part=0)
        return steady_cluster("c1", machines, dict.fromkeys(BUNDLES, 1.0), owners, chance=chance)

    def breathe(self, cluster: PolledCluster, number: int) -> None:
        for place, bundle in enumerate(BUNDLES):
            grown = self.growth if place == 0 and number > 12 else 1.0
            carry(cluster, bundle, grown * self.rates[place] * (1 + 0.01 * sin(number + place)))


#: The bundles in turn.
DEALT = {bundle: BROKERS[place % 4] for place, bundle in enumerate(BUNDLES)}


def recording(
    folder: Path, owners: Mapping[str, str] = DEALT, passes: int = 40, model: Model = Model()
) -> Path:
    cluster = model.cluster(owners)
    lines, writer = folder / "lines.jsonl", TelemetryWriter(cluster.start_ms)
    with lines.open("wb") as file:
        for number in range(passes):
            model.breathe(cluster, number)
            file.writelines(writer.json(seen) + b"\n" for seen in cluster.collect())
    converted(str(lines), folder / "lines.parquet", DEFAULT_LIMITS)
    return folder / "lines.parquet"


def passes(path: Path) -> Iterator[Pass]:
    found: dict[str, LoadReport] = {}
    for block in read_blocks(path, with_traffic=True):
        for record in map(block.record, range(len(block))):
            if isinstance(record, LoadReport):
                found[record.broker] = record
            elif isinstance(record, Sweep):
                yield found
                found = {}


def owners(one: Pass) -> dict[str, str]:
    return {name: broker for broker, report in one.items() for name in bundles(report).names}


def bundles(report: LoadReport) -> BundleStats:
    assert report.bundles is not None
    return report.bundles


def figures(report: LoadReport) -> Figures:
    assert report.figures is not None
    return report.figures


def moves(path: Path, idle: Idle) -> list[Move]:
    (line,) = run(BacktestJob(path, "a run", SETTINGS, "closed", idle=idle)).timelines
    return [(move.bundle, move.source, move.destination) for move in line.moves]


@pytest.mark.parametrize("seed", range(6))
def test_without_a_broker_it_is_the_simulation_of_a_cluster_without_it(
    seed: int, tmp_path: Path
) -> None:
    """Odd seeds: of unequal machines."""
    drawn = Random(seed)
    sizes = (4, 6, 8) if seed % 2 else (4,)
    like = MACHINE.model_copy(update={"cpu_idle": (0, 5, 8, 10)[seed % 4]})
    machines = {name: like.model_copy(update={"cores": drawn.choice(sizes)}) for name in BROKERS}
    first, *rates = Model().rates
    model = Model([first, *drawn.sample(rates, len(rates))], machines)
    placed = dict(zip(BUNDLES, drawn.sample([*BROKERS] * 6, 24), strict=True))
    gone = drawn.choice(BROKERS)
    with changed(recording(tmp_path, placed, model=model), WhatIf(removed=(gone,)), SETTINGS) as (
        path,
        unloads,
        idle,
    ):
        told, moved = list(passes(path)), moves(path, idle)
    start, rest = owners(told[0]), [name for name in BROKERS if name != gone]

    assert unloads == []
    assert sorted(start) == sorted(BUNDLES)
    homes = {start[bundle] for bundle in BUNDLES if placed[bundle] == gone}
    assert homes <= {*rest}
    assert len(homes) > 1, "spread by the placement"
    others = model.cluster(start, rest)
    for number, seen in enumerate(told):
        model.breathe(others, number)
        for record in others.collect():
            if isinstance(record, LoadReport):
                same, real = figures(seen[record.broker]), figures(record)
                assert {*bundles(seen[record.broker]).names} == {*bundles(record).names}
                assert same.cpu.usage == pytest.approx(real.cpu.usage, abs=0.001 * real.cpu.limit)
                assert same.direct_memory.usage == pytest.approx(real.direct_memory.usage, abs=1)
    # The model feels the moves itself.
    live, done = model.cluster(start, rest), list[Move]()
    steps = closed_loop(live, EngineDecider(SETTINGS.engine))
    for number in range(len(told)):
        model.breathe(live, number)
        done += [(one.bundle, one.source, one.destination) for one in next(steps).commands]
    assert moved
    assert moved == done


def test_idle_usage_that_no_traffic_shows_is_taken_for_none(tmp_path: Path) -> None:
    steady = Model([1500.0] * len(BUNDLES), growth=1.0)
    assert idle_usage(read_blocks(recording(tmp_path))) == pytest.approx((IDLE, 1 / 32), abs=1e-3)
    assert idle_usage(read_blocks(recording(tmp_path, model=steady))) < (0.01, 0.01)


def test_a_new_broker_begins_empty_on_the_same_machine_and_takes_bundles(tmp_path: Path) -> None:
    change = read_what_if([f"2={BROKERS[1]}", f"big:1={BROKERS[0]}"], [], [], None)
    with changed(recording(tmp_path), change, SETTINGS) as (path, _, idle):
        told, moved = list(passes(path)), moves(path, idle)

    assert [*change.added] == ["added-1:8080", "added-2:8080", "big:1"]
    for one in told:
        assert [*one] == [BROKERS[0], "big:1", BROKERS[1], *[*change.added][:2], *BROKERS[2:]]
        new, like = one["added-1:8080"], figures(one[BROKERS[1]])
        assert (bundles(new).names, figures(new).bundle_count) == ((), 0)
        assert figures(new).cpu.limit == like.cpu.limit
        assert figures(new).cpu.usage == pytest.approx(IDLE * like.cpu.limit, rel=0.01)
        assert figures(new).memory == like.memory
    assert {*change.added} <= {destination for _, _, destination in moved}


def test_traffic_grows_with_the_usage_that_follows_from_it(tmp_path: Path) -> None:
    recorded = recording(tmp_path, passes=3)
    with changed(recorded, read_what_if([], [], ["t/a=3"], None), SETTINGS) as (path, _, _):
        for before, after in zip(passes(recorded), passes(path), strict=True):
            # Of two namespaces in turn, each of four brokers has bundles of one.
            for place, broker in enumerate(BROKERS):
                by, was, now = (3.0, 1.0)[place % 2], before[broker], after[broker]
                cpu, grown = figures(was).cpu, figures(now).cpu.usage
                idle = IDLE * cpu.limit
                assert grown == pytest.approx(idle + by * (cpu.usage - idle), rel=0.01)
                assert bundles(now).traffic == pytest.approx(by * bundles(was).traffic)
                total = figures(now).traffic.msg_throughput
                assert total == pytest.approx(by * figures(was).traffic.msg_throughput)


@pytest.mark.parametrize(
    ("new", "unloaded"),
    [
        (policy(["t/a", "t/b"], ["b1"]), {"t/b"}),
        (policy(["t/a", "t/b"], ["b1"], unload_scope="changed"), {"t/b"}),
        (policy(["t/b"], ["b1"]), {"t/a", "t/b"}),
        (policy(["t/a"], ["b2"]), {"t/a"}),
        (policy(["t/[ab]"], ["b1"]), {"t/a", "t/b"}),
        (policy(["t/a", "t/b"], ["b1"], unload_scope="none"), set()),
        (policy(["t/b"], ["b1"], unload_scope="all_matching"), {"t/a", "t/b"}),
        (policy(["t/a"], ["b1"], unload_scope="all_matching"), {"t/a"}),
        (policy(["t/a"], ["b1"]), set()),
    ],
)
def test_a_post_unloads_what_pulsar_unloads(new: Mapping[str, Any], unloaded: set[str]) -> None:
    """As a real cluster does: tests/servers/test_posted_policies.py."""
    old = {"p": policy(["t/a"], ["b1"])}
    assert {*unloaded_namespaces(old, {"p": new}, ["t/a", "t/b", "u/a"])} == unloaded


def test_a_new_policy_unloads_what_it_matches_and_the_end_of_one_nothing() -> None:
    first, second = policy(["t/.*"], ["b1"]), policy(["u/a"], ["b2"])
    assert unloaded_namespaces({"q": second}, {"p": first}, ["t/a", "u/a"]) == {"t/a": "p"}


def test_policies_are_followed_from_the_start_and_their_unloads_are_named(tmp_path: Path) -> None:
    recorded = recording(tmp_path)
    file = tmp_path / "policies.json"
    file.write_text(json.dumps({"p": policy(["t/a"], ["broker-[01]"])}))
    with changed(recorded, read_what_if([], [], [], file), SETTINGS) as (
        path,
        unloads,
        idle,
    ):
        told, moved = list(passes(path)), moves(path, idle)
    done = rebalancer("backtest", recorded, "--policies", file, "--json").json
    text = rebalancer("backtest", recorded, "--policies", file)

    assert done["unloads"] == unloads
    assert [one["bundle"] for one in unloads] == sorted(BUNDLES[::2])
    homes = owners(told[0])
    assert all(homes[str(one["bundle"])] == one["destination"] for one in unloads)
    assert {one["destination"] for one in unloads} == {*BROKERS[:2]}
    assert [homes[one] for one in BUNDLES[1::2]] == [BROKERS[1], BROKERS[3]] * 6, "t/b stays"
    assert all(owners(one) == homes for one in told)
    assert not {to for bundle, _, to in moved if namespace_of(bundle) == "t/a"} - {*BROKERS[:2]}
    assert "Pulsar unloads 12 bundles at once" in text.words
    assert "isolation policies of --policies" in text.words


@pytest.mark.parametrize("name", ["modular-broker-killed", "modular-broker-joins"])
def test_nothing_is_lost_when_brokers_come_and_go(name: str, tmp_path: Path) -> None:
    """Of real brokers: bundles whose new broker dies get another one."""
    recorded = tmp_path / "a.parquet"
    converted(str(ROOT / f"tests/data/recordings/{name}.jsonl.gz"), recorded, DEFAULT_LIMITS)
    whole = list(passes(recorded))
    away = min(whole[-1])
    with changed(recorded, WhatIf(removed=(away,)), SETTINGS) as (path, _, _):
        after = list(passes(path))
    lost = [
        {name for name in owners(one).keys() - owners(other).keys() if name.startswith("load/")}
        for one, other in zip(whole, after, strict=True)
    ]

    assert not any(away in one for one in after)
    assert sum(map(bool, lost)) <= 1, "a pass without the broker that has died"
    sent = [
        sum(figures(one).traffic.msg_throughput_out for one in many[-1].values())
        for many in (whole, after)
    ]
    assert sent[1] == pytest.approx(sent[0], rel=0.01)
