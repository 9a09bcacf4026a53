"""Legal views of a cluster, as any round may hand them to a strategy: idle, absurd, tied, shared
and odd, each from a seed.

Hypothesis chooses the seed and the sizes, not every figure: ten times as many views in the same
time, and sizes still shrink.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from struct import pack

import numpy as np
import pytest
from hypothesis import strategies as st

from strategies.bundles import BundleLoads
from strategies.cluster.model import BrokerLoad, ClusterView, Figures, Resource, Traffic
from strategies.cluster.strategy_memory import (
    NO_EPISODE,
    NO_MEMORY,
    BrokerMemory,
    ClusterMemory,
    Memory,
)
from strategies.settings import Mode, Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.memory_format import (
    Episode,
    LoadHistory,
    LoadSample,
    RecentMove,
    histories_of,
)
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.shedding.uniform.settings import UniformSettings
from tests.world.steady import LoadLevel, history_of

WEIGHTS = Weights(direct_memory=0.5)
#: The instant of every view.
NOW_MS = 10_000_000
MODES: tuple[Mode, ...] = ("fixed", "parity")
BROKERS = ("a1:1", "a2:1", "b1:1", "b2:1", "c1:1", "größe-ß:8080")
NAMESPACES = ("t/x", "t/y", "t/z", "ünï/😀")
#: The last two belong to Pulsar itself.
BUNDLES = (
    *(f"{namespace}/0x{k}0000000_0x{k + 1}0000000" for namespace in NAMESPACES for k in range(6)),
    "pulsar/b1:1/0x00000000_0xffffffff",
    "pulsar/system/0x00000000_0xffffffff",
)
#: Ties, zero, rounding steps, and more than any broker carries.
FIGURES = (0.0, 0.0, 0.5, 1.0, 50.0, 50.0, 1e3, 123_456.7, 1e6, 3e7, 1e9, 1e12)
#: Thresholds, what 32 bits make of them (30.000002), nothing and far too much.
PERCENTS = (0.0, 10.0, 10.5, 30.0, 50.0, 50.0, 60.0, 84.9, 85.0, 90.0, 100.0, 250.0)

#: Settings whose thresholds are so low that nearly every round has something to move.
_LOW: dict[str, object] = {
    "threshold": ThresholdSettings(
        threshold_percent=3.0, history=0.3, min_throughput_mib=0.0, lower_boundary=True
    ),
    "avg": AvgSettings(
        low_threshold=1.0,
        high_threshold=20.0,
        hit_count_low=2,
        hit_count_high=1,
        max_unload=0.9,
        min_msg_rate=0.0,
        min_throughput=0.0,
    ),
    "overload": OverloadSettings(threshold_percent=10.0),
    "steady": SteadySettings(steadiness="tight", rest_minutes=1.0, sample_seconds=1.0),
    "transfer": TransferSettings(target_std=0.02, hit_count=0, history=0.5),
    "uniform": UniformSettings(
        rate_difference_percent=5.0,
        throughput_ratio=1.1,
        max_unload=0.5,
        min_msg_rate=0.0,
        min_throughput=0.0,
    ),
}
#: Of every strategy: those above, or the first of the values that its entry in the registry names.
EAGER: dict[str, object] = _LOW | {
    name: one.settings(**{key: values[0] for key, values in one.tuning.items()})
    for name, one in SHEDDERS.items()
    if name not in _LOW
}
seeds = st.integers(0, 2**32)
sizes = st.integers(0, len(BROKERS))
modes = st.sampled_from(MODES)
mostly = st.sampled_from([True, True, False])
any_strategy = pytest.mark.parametrize("strategy", list(SHEDDERS))


def a_table(chance: random.Random, names: Sequence[str]) -> BundleLoads:
    """Averages and newest figures that need not agree."""
    short, long, current = (
        np.array([chance.choices(FIGURES, k=4) for _ in names]).reshape(len(names), 4)
        for _ in range(3)
    )
    if chance.random() < 0.5:
        short = long = current
    counts = np.array(
        [(chance.randint(1, 10), chance.randint(1, 1000), chance.randint(0, 3), 1) for _ in names],
        dtype=np.int64,
    )
    few, many, topics, sessions = counts.reshape(len(names), 4).T
    return BundleLoads(tuple(names), short, long, few, many, topics, sessions, current)


def a_broker(chance: random.Random, name: str, table: BundleLoads) -> BrokerLoad:
    """Mostly its traffic is that of its bundles; sometimes it says something else, or serves
    bundles that nobody has averages of.
    """
    summed = Traffic(*(fsum(column) for column in table.short.T.tolist()))
    traffic = summed if chance.random() < 0.7 else Traffic(*chance.choices(FIGURES, k=4))
    cpu, memory, direct_memory, bandwidth_in, bandwidth_out = (a_resource(chance) for _ in range(5))
    count = len(table.names) + chance.choice((0, 0, 0, 2))
    figures = Figures(
        cpu,
        memory,
        direct_memory,
        bandwidth_in,
        bandwidth_out,
        traffic,
        count,
        *own_averages(chance),
    )
    reported = chance.choice((None, NOW_MS, NOW_MS - 1000, NOW_MS - 400_000, 0))
    return BrokerLoad(
        name,
        figures,
        lambda: table,
        chance.random() < 0.6,
        chance.random() < 0.25,
        reported_at_ms=reported,
    )


def own_averages(chance: random.Random) -> tuple[float | None, float | None, int | None]:
    """Of a broker that runs the extensible load manager, or none."""
    if chance.random() < 0.7:
        return None, None, None
    return (
        chance.choice(PERCENTS) / 100,
        chance.choice(FIGURES),
        NOW_MS - chance.choice((0, 1000, 200_000, 4_000_000)),
    )


def a_resource(chance: random.Random) -> Resource:
    """So many percent; rarely unmeasured, which leaves the resource out for all brokers."""
    if chance.random() < 0.02:
        return chance.choice((Resource(), Resource(-1.0, -1.0)))
    return chance.choice(
        (Resource(chance.choice(PERCENTS), 100.0), Resource(chance.random() * 120, 100.0))
    )


def a_view(seed: int, brokers: int, most: int, *, shared: bool = True) -> ClusterView:
    """So many brokers with at most so many bundles each; `shared`: some bundles are reported by two
    brokers.
    """
    chance = random.Random(seed)
    left, found = chance.sample(BUNDLES, len(BUNDLES)), []
    for name in chance.sample(BROKERS, brokers):
        count = chance.randint(0, min(most, len(left)))
        owned, left = left[:count], left[count:]
        if shared and chance.random() < 0.2:
            owned = list(dict.fromkeys([*owned, *chance.sample(BUNDLES, min(2, most))]))
        found.append(a_broker(chance, name, a_table(chance, owned)))
    cooling = frozenset(chance.sample(BUNDLES, chance.choice((0, 0, 1, 4))))
    return ClusterView("c", NOW_MS, tuple(found), cooling)


def a_memory(seed: int) -> Memory:
    """What any strategy may have left behind, also of brokers that are gone, but of no broker more
    than it can have seen.
    """
    chance = random.Random(seed)

    def usage() -> float | None:
        return chance.choice((None, chance.random() * 1.5, chance.choice(PERCENTS) / 100))

    def hits() -> int | None:
        return chance.choice((None, 0, 1, chance.randint(1, 9)))

    def broker() -> BrokerMemory:
        gave_at_ms = chance.choice((None, None, NOW_MS - 1000, NOW_MS - 300_000))
        return BrokerMemory(
            usage(),
            usage(),
            hits(),
            hits(),
            chance.choice((None, *FIGURES)),
            gave_at_ms,
            chance.choice((None, *(a_load_history(chance) for _ in range(4)))),
        )

    brokers = {name: broker() for name in chance.sample(BROKERS, chance.randint(0, len(BROKERS)))}
    planned = {
        bundle: chance.choice(BROKERS)
        for bundle in chance.sample(BUNDLES, chance.choice((0, 0, 3)))
    }
    rotation = tuple(chance.sample(BROKERS, chance.randint(0, 4)))
    return Memory(
        brokers,
        ClusterMemory(
            chance.randint(0, 9),
            planned,
            {},
            rotation,
            chance.randint(0, len(rotation)),
            {},
            tuple(a_recent_move(chance) for _ in range(chance.choice((0, 0, 3)))),
            an_episode(chance),
        ),
    )


def as_its_own(memory: Memory, strategy: str) -> Memory:
    """The memory without the private values of SteadyShedder, if another strategy gets it: each
    finds only those that it wrote.
    """
    if strategy == "steady":
        return memory
    brokers = {name: replace(kept, history=None) for name, kept in memory.brokers.items()}
    return Memory(brokers, replace(memory.cluster, moves=(), episode=NO_EPISODE))


def a_load_history(chance: random.Random) -> LoadHistory:
    """Samples a minute apart around one usage, and levels of any traffic."""
    usual, count = chance.choice(PERCENTS) / 100, chance.choice((0, 2, 3, 20, 20))
    samples = tuple(
        LoadSample(
            NOW_MS - 60_000 * back,
            usual + chance.choice((0.0, 0.01, 0.3)),
            chance.choice(FIGURES),
            chance.choice(FIGURES),
        )
        for back in range(count + 1, 1, -1)
    )
    levels = tuple(
        LoadLevel(
            chance.choice(FIGURES), chance.choice(FIGURES), usual, chance.uniform(1, 5), at_ms
        )
        for at_ms in sorted(chance.choices(range(NOW_MS - 36_000_000, NOW_MS), k=min(count, 10)))
    )
    changed = chance.choice((-1, -1, -1, -1, NOW_MS - 90_000, NOW_MS - 500_000))
    return history_of(
        samples,
        levels,
        changed_at_ms=changed,
        bundles=chance.randint(0, 8),
        doubted=chance.random() < 0.1,
    )


def fitting(memory: Memory, view: ClusterView) -> Memory:
    """The memory as if every broker had reported before, and none had gained or lost bundles since
    its newest sample.
    """
    brokers, known = dict(memory.brokers), histories_of(memory, memory.brokers)
    for load in view.brokers:
        kept = brokers.get(load.broker, NO_MEMORY)
        history = known.get(load.broker) or a_load_history(random.Random(str(load.figures)))
        history = history._replace(bundles=load.figures.bundle_count)
        brokers[load.broker] = replace(kept, history=history)
    return Memory(brokers, memory.cluster)


def a_recent_move(chance: random.Random) -> RecentMove:
    source, destination = chance.sample(BROKERS, 2)
    load, other = chance.choice(PERCENTS) / 100, chance.choice(PERCENTS) / 100
    at_ms, counted = NOW_MS - chance.choice((60_000, 900_000)), chance.random() < 0.9
    bytes_, rate = chance.choice(FIGURES), chance.choice(FIGURES)
    bundle = chance.choice(BUNDLES)
    return RecentMove(bundle, source, destination, at_ms, bytes_, rate, load, other, counted)


def an_episode(chance: random.Random) -> Episode:
    if chance.random() < 0.5:
        return Episode()
    began = NOW_MS - chance.choice((60_000, 600_000, 4_000_000))
    return Episode(
        began,
        chance.randint(began, NOW_MS - 1),
        chance.random() < 0.5,
        chance.random(),
        chance.random(),
        chance.random() < 0.5,
        chance.randint(0, 3),
        chance.uniform(1, 2),
        NOW_MS + chance.choice((-1000, -1000, 1000)),
        chance.choice((None, 0.1)),
        judged_at_ms=NOW_MS - chance.choice((1_000, 28_800_001)),
        looked_at_ms=NOW_MS - chance.choice((1_000, 1_200_001)),
        packed_looks=pack("<2f", chance.uniform(-1, 1), chance.uniform(0, 900)),
    )


views = st.builds(a_view, seeds, sizes, sizes)
memories = st.builds(a_memory, seeds)
