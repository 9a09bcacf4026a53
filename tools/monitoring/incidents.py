"""Incidents, each recorded on an installation of its own: what goes wrong, and for how long.

Each begins with healthy minutes, because an alert must follow from the change.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from pulsar_rebalancer.lab.simulation.clusters import MESSAGE_BYTES, skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import PolledCluster
from sinks.executor.executor import Executor
from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import Secret
from sinks.wire.signing_keys import SigningKey
from strategies.bundles import Floats
from strategies.cluster.model import Outcome
from strategies.fold.engine import EngineSettings
from strategies.settings import BulkheadSettings
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import executor
from tools.monitoring.installation import GIB, Installation
from tools.monitoring.scrapes import Scrapes

CLUSTER = "prod"
HEALTHY_MIN = 15
EVEN = (0.5, 0.5, 0.5, 0.5)
UNEVEN = (0.8, 0.4, 0.4, 0.4)


@dataclass(frozen=True)
class Incident:
    """`alert`: the only one that must fire, empty if none must; not before `begins_min`, and from
    `fires_min` until the end of the recording. `record` gets a folder.
    """

    name: str
    record: Callable[[Path], Scrapes]
    alert: str = ""
    begins_min: int = 0
    fires_min: int = 0


def cluster(usage: Sequence[float], bundles: int = 64, seed: int = 1) -> PolledCluster:
    """A modelled cluster whose time begins at 0."""
    return PolledCluster(skewed_cluster(CLUSTER, seed, bundles, usage).world, CLUSTER, 0)


def _after_healthy(change: Callable[[Installation], object], minutes: int) -> Scrapes:
    there = Installation(cluster(EVEN))
    there.minutes(HEALTHY_MIN)
    change(there)
    there.minutes(minutes)
    return there.scrapes


def balanced_hour(_: Path) -> Scrapes:
    """Nothing to move for an hour."""
    return _after_healthy(lambda _: None, 60)


def uneven_hour(_: Path) -> Scrapes:
    """A cluster that needs moves gets them and is balanced by them."""
    there = Installation(cluster(UNEVEN))
    there.minutes(75)
    return there.scrapes


def collector_ends(_: Path) -> Scrapes:
    """The collector's process ends."""
    return _after_healthy(lambda there: there.silent.add("collector"), 30)


def all_processes_end(_: Path) -> Scrapes:
    """The machine with all three processes is lost."""
    return _after_healthy(lambda there: there.silent.update(("collector", "job", "executor")), 30)


def clock_two_minutes_ahead(_: Path) -> Scrapes:
    """The collector's clock jumps by two minutes: its records are still used."""
    return _after_healthy(lambda there: setattr(there, "clock_error_s", 120), 30)


def clock_ten_minutes_ahead(_: Path) -> Scrapes:
    """It jumps by ten minutes: records are rejected, until the cluster's time follows."""
    return _after_healthy(lambda there: setattr(there, "clock_error_s", 600), 45)


def clock_behind(_: Path) -> Scrapes:
    """It goes back by ten minutes."""
    return _after_healthy(lambda there: setattr(there, "clock_error_s", -600), 45)


def executor_refuses(folder: Path) -> Scrapes:
    """The executor has a key and the job has none, so that it refuses all commands."""
    there = Installation(cluster(UNEVEN))
    control = Control(folder)
    with FakePulsar(Cluster(name=CLUSTER)) as pulsar, _strict(there, pulsar, control) as running:

        def refuse(records: Sequence[bytes], _now_s: int) -> Sequence[Outcome]:
            before = len(control.outcomes())
            control.write("commands", records)
            while running.step(0):
                pass
            return control.outcomes()[before:]

        there.carry_out = refuse
        there.minutes(75)
    return there.scrapes


@contextmanager
def _strict(there: Installation, pulsar: FakePulsar, control: Control) -> Iterator[Executor]:
    key = SigningKey(Secret(b"k" * 32))
    config = ExecutorConfig(CLUSTER, apply=True, key=key)
    with executor(
        pulsar,
        control,
        config,
        metrics=there.executor,
        clock_ms=lambda: 1_000 * there.now_s,
    ) as running:
        yield running


def plans_denied(_: Path) -> Scrapes:
    """A person denies each plan, as an operator may."""
    there = Installation(cluster(UNEVEN))

    def deny(records: Sequence[bytes], now_s: int) -> Sequence[Outcome]:
        return there.answered(records, now_s, "refused", "denied: ann: not during the sale")

    there.carry_out = deny
    there.minutes(75)
    return there.scrapes


def plans_wait(_: Path) -> Scrapes:
    """Plans wait for a person for longer than half an hour."""
    there = Installation(cluster(UNEVEN))
    there.minutes(HEALTHY_MIN)
    there.held = 3
    there.carry_out = lambda _records, _now_s: ()
    _another_broker_gets_busy(there.cluster)
    there.minutes(120)
    return there.scrapes


def _another_broker_gets_busy(one: PolledCluster) -> None:
    """The traffic of one broker's bundles doubles, that of the others becomes less."""
    world = one.world
    busy = world.ownership.owner == 1
    world.demand.flows[0].rate[:] *= np.where(busy, 2.0, 0.7)


def executor_ends(_: Path) -> Scrapes:
    """The executor has moved bundles; its process ends, and another broker becomes busy."""
    there = Installation(cluster(UNEVEN))
    there.minutes(HEALTHY_MIN)
    there.silent.add("executor")
    there.carry_out = lambda _records, _now_s: ()
    _another_broker_gets_busy(there.cluster)
    there.minutes(120)
    return there.scrapes


def job_overtaken(_: Path) -> Scrapes:
    """The job processes four records a minute, and the collector publishes five."""
    there = Installation(cluster(EVEN), per_tick=1)
    there.minutes(60)
    return there.scrapes


def cannot_help(_: Path) -> Scrapes:
    """Each broker has one bundle, and one of them is too large."""
    there = Installation(cluster((0.8, 0.3, 0.3, 0.3), bundles=4))
    there.minutes(75)
    return there.scrapes


def busy_in_turns(_: Path) -> Scrapes:
    """Another process uses a quarter of the CPU of two brokers in turn, so that no gap lasts."""
    there = Installation(cluster(EVEN))
    there.minutes(HEALTHY_MIN)

    def work() -> None:
        there.cluster.world.foreign = np.roll([25.0, 0.0, 0.0, 0.0], there.now_s // 120 % 2)

    there.every_minute = work
    there.minutes(60)
    return there.scrapes


def greedy_process(_: Path) -> Scrapes:
    """A process on the busiest broker uses the CPU that moved bundles leave."""
    there = Installation(cluster((0.88, *[0.72] * 9), bundles=200))
    world = there.cluster.world
    first = _busy(there.cluster)

    def fill_up() -> None:
        world.foreign = np.maximum(0.0, first - _busy(there.cluster))

    there.every_minute = fill_up
    there.minutes(60)
    return there.scrapes


def another_shedder(_: Path) -> Scrapes:
    """Another shedder takes each moved bundle back."""
    there = Installation(cluster((0.75, 0.5, 0.5, 0.5)))
    world, modelled = there.cluster.world, there.carry_out

    def carried_out(records: Sequence[bytes], now_s: int) -> Sequence[Outcome]:
        outcomes = modelled(records, now_s)
        for one in outcomes:
            assert one.owner_before is not None
            row, back = world.names.index(one.bundle), world.fleet.names.index(one.owner_before)
            world.move(row, back, now_s + 20.0, now_s + 21.0)
        return outcomes

    there.carry_out = carried_out
    there.minutes(150)
    return there.scrapes


def a_script_unloads(_: Path) -> Scrapes:
    """A script moves two bundles a minute, in a cluster that stays balanced."""
    there = Installation(cluster(EVEN))
    there.minutes(HEALTHY_MIN)
    world, turn = there.cluster.world, count()

    def unload() -> None:
        for _ in range(2):
            row = next(turn) % len(world.names)
            world.move(
                row, (int(world.ownership.owner[row]) + 1) % len(EVEN), there.now_s, there.now_s
            )

    there.every_minute = unload
    there.minutes(30)
    return there.scrapes


def _busy(one: PolledCluster) -> Floats:
    """CPU (points) that each broker's own bundles use."""
    world = one.world
    rates = np.zeros(len(world.present))
    np.add.at(rates, world.ownership.owner, 2 * world.demand.flows[0].rate)
    return world.fleet.cpu(rates, rates * MESSAGE_BYTES)


def disk_fills(_: Path) -> Scrapes:
    """Another program fills the disk with 2 GiB a minute."""
    there = Installation(cluster(EVEN))

    def fill() -> None:
        there.free_bytes = max(there.free_bytes - 2 * GIB, 0.1 * GIB)

    there.minutes(HEALTHY_MIN)
    there.every_minute = fill
    there.minutes(45)
    return there.scrapes


def little_disk(_: Path) -> Scrapes:
    """The disk has had too little free space for a long time, and does not fill further."""
    there = Installation(cluster(EVEN))
    there.free_bytes = 0.5 * GIB
    there.minutes(30)
    return there.scrapes


def drain_blocked(_: Path) -> Scrapes:
    """A person drains a broker, and the others have no room for all of its bundles."""
    full = (0.8, 0.8, 0.8, 0.8)
    there = Installation(cluster(full))
    there.minutes(HEALTHY_MIN)
    there.asks("drain", there.cluster.world.fleet.names[0])
    there.minutes(60)
    return there.scrapes


def a_flood(_: Path) -> Scrapes:
    """A program sends a hundred records of the cluster each minute, after the collector's."""
    quota = BulkheadSettings(records=30, records_per_broker=1)
    there = Installation(cluster(EVEN), engine=EngineSettings(bulkhead=quota))

    def flood() -> None:
        ts = 1_000 * (there.now_s - 30)
        fields = {"v": 1, "kind": "note", "cluster": CLUSTER, "ts": ts, "note": "hello"}
        there.job.telemetry.extend([json.dumps(fields).encode()] * 100)

    there.minutes(HEALTHY_MIN)
    there.every_minute = flood
    there.minutes(30)
    return there.scrapes


def reports_rejected(_: Path) -> Scrapes:
    """The reports of one broker become unreadable."""
    there = Installation(cluster(EVEN))
    first = there.cluster.world.fleet.names[0].encode()

    def garbled(record: bytes) -> bytes:
        is_its = b'"load-report"' in record[:64] and b'"broker":"%s"' % first in record[:256]
        return (
            record.replace(b'"report":{', b'"report":{"cpu":{}},"was":{', 1) if is_its else record
        )

    there.minutes(HEALTHY_MIN)
    there.reported = garbled
    there.minutes(30)
    return there.scrapes


STOPS = "PulsarRebalancerTelemetryStops"
CLOCK = "PulsarRebalancerClockWrong"
REFUSES = "PulsarRebalancerExecutorRefuses"
OVERTAKEN = "PulsarRebalancerJobOvertaken"
CANNOT_HELP = "PulsarRebalancerCannotHelp"
WAITS = "PulsarRebalancerWaits"
YIELDS = "PulsarRebalancerYields"
USELESS = "PulsarRebalancerMovesDoNotHelp"
DISK = "PulsarRebalancerDiskFull"
BLOCKED = "PulsarRebalancerDrainBlocked"
ASIDE = "PulsarRebalancerSetAside"
REJECTED = "PulsarRebalancerReportsRejected"

INCIDENTS = (
    Incident("balanced-hour", balanced_hour),
    Incident("uneven-hour", uneven_hour),
    Incident("collector-ends", collector_ends, STOPS, HEALTHY_MIN, 24),
    Incident("all-processes-end", all_processes_end, STOPS, HEALTHY_MIN, 24),
    Incident("clock-two-minutes-ahead", clock_two_minutes_ahead, CLOCK, HEALTHY_MIN, 25),
    Incident("clock-ten-minutes-ahead", clock_ten_minutes_ahead, CLOCK, HEALTHY_MIN, 25),
    Incident("clock-behind", clock_behind, CLOCK, HEALTHY_MIN, 25),
    Incident("executor-refuses", executor_refuses, REFUSES, 5, 10),
    Incident("plans-denied", plans_denied),
    Incident("plans-wait", plans_wait),
    Incident("executor-ends", executor_ends, REFUSES, 30, 40),
    Incident("a-flood", a_flood, ASIDE, HEALTHY_MIN, 24),
    Incident("job-overtaken", job_overtaken, OVERTAKEN, 5, 10),
    Incident("cannot-help", cannot_help, CANNOT_HELP, 25, 35),
    Incident("busy-in-turns", busy_in_turns, WAITS, 40, 60),
    Incident("greedy-process", greedy_process, USELESS, 26, 39),
    Incident("a-script-unloads", a_script_unloads, YIELDS, HEALTHY_MIN, 30),
    Incident("another-shedder", another_shedder, YIELDS, 10, 30),
    Incident("reports-rejected", reports_rejected, REJECTED, HEALTHY_MIN, 32),
    Incident("drain-blocked", drain_blocked, BLOCKED, HEALTHY_MIN, 45),
    Incident("little-disk", little_disk, DISK, 5, 7),
    Incident("disk-fills", disk_fills, DISK, HEALTHY_MIN, 40),
)
