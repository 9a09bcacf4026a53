"""A made-up cluster that anybody can make up again, bit for bit, in any language; as the packed
state that the live job keeps.

Each draw takes the state s (42 at first) to (s·25214903917 + 11) mod 2^48 and is ⌊s / 2^16⌋ / 2^32.
Broker after broker draws its CPU, then for each of its bundles bytes/s in, bytes/s out, messages/s
in, messages/s out. The first few brokers are nearly full and carry twice the traffic of the others.
`benchmarks/java/DecisionSpeed.java` draws the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from strategies.averages.bundle_averages import first_history
from strategies.bundles import Floats
from strategies.cluster.cluster_state import BrokerState, InMemoryStore
from strategies.cluster.model import BundleStats, Figures, Resource, Traffic

CLUSTER = "bench"
#: When every broker has just reported.
NOW_MS = 1_795_000_000_000
#: The round that is open.
ROUND = 1

_RANGES = 1 << 32
#: So many brokers are nearly full.
_HOT = 5
#: What a draw of 1 means: bytes/s in and out, messages/s in and out.
_SCALES = (4e6, 8e6, 3000.0, 6000.0)


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster's size: `bundles` in all, spread evenly."""

    brokers: int
    bundles: int

    @property
    def per_broker(self) -> int:
        return self.bundles // self.brokers

    def __str__(self) -> str:
        return f"{self.brokers:,} × {self.bundles:,}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """All brokers in their order, their packed tables, and a digest of every figure in the order it
    was drawn.
    """

    size: Size
    brokers: tuple[BrokerState, ...]
    store: InMemoryStore = field(repr=False)
    digest: str


def draws(seed: int = 42) -> Iterator[float]:
    """Numbers from 0 up to 1, without end."""
    state = seed
    while True:
        state = (state * 25214903917 + 11) % (1 << 48)
        yield (state >> 16) / (1 << 32)


def cluster(size: Size) -> Cluster:
    """The cluster of this size, as it stands in the store after every broker's first report."""
    draw, store, digest = draws(), InMemoryStore(), sha256()
    ranges = _ranges(size.per_broker)
    for index in range(size.brokers):
        hot = index < _HOT
        cpu = 90 + 8 * next(draw) if hot else 40 + 20 * next(draw)
        traffic = _drawn(draw, size.per_broker, 2 if hot else 1)
        digest.update(np.array([cpu, *traffic.ravel()], dtype=">f8").tobytes())
        _put(
            store,
            index,
            cpu,
            tuple(f"tenant-{index % 50}/ns-{index}/{bounds}" for bounds in ranges),
            traffic,
        )
    return Cluster(size, tuple(store.brokers()), store, digest.hexdigest())


def broker_name(index: int) -> str:
    """host:port of a broker."""
    return f"broker-{index}.pulsar.local:8080"


def _drawn(draw: Iterator[float], bundles: int, factor: int) -> Floats:
    """float64[n, 4] in the order of drawing: throughput in, throughput out, rate in, rate out."""
    return np.array([[factor * scale * next(draw) for scale in _SCALES] for _ in range(bundles)])


def _ranges(bundles: int) -> tuple[str, ...]:
    width = _RANGES // bundles
    ends = [
        min((row + 1) * width, 0xFFFFFFFF) if row < bundles - 1 else 0xFFFFFFFF
        for row in range(bundles)
    ]
    return tuple(f"0x{row * width:08x}_0x{end:08x}" for row, end in enumerate(ends))


def _put(
    store: InMemoryStore, index: int, cpu: float, names: tuple[str, ...], drawn: Floats
) -> None:
    """One broker and its table, packed after one sample: the averages of a bundle are then its
    figures, exactly.
    """
    none = np.zeros(len(names), dtype=np.int64)
    # Rates come first in our tables, throughputs in the recipe.
    stats = BundleStats(names, np.ascontiguousarray(drawn[:, [2, 3, 0, 1]]), none, none)
    # One after the other, as Java adds them up. The sums of numpy (in pairs) and of Python 3.12
    # (compensated) end in other bits.
    throughput_in, throughput_out, rate_in, rate_out = drawn.cumsum(axis=0)[-1].tolist()
    traffic = Traffic(rate_in, rate_out, throughput_in, throughput_out)
    network = Resource(0.0, 1_250_000.0)
    figures = Figures(
        cpu=Resource(cpu * 8, 800.0),
        bandwidth_in=network,
        bandwidth_out=network,
        traffic=traffic,
        bundle_count=len(names),
    )
    name = broker_name(index)
    store.put_broker(
        BrokerState(name, index, NOW_MS, ROUND, NOW_MS, NOW_MS, ROUND, -1, "", "", figures)
    )
    store.put_table(name, first_history(stats, ROUND).pack())
