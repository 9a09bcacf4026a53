"""A cluster everybody has met: two brokers were restarted and came back nearly empty, two others still carry what they took over."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rebalancer.simulation.chance import uniform
from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.model import BrokerModel, BundleModel, ClusterModel, Hardware
from strategies.bundles.bundle_loads import Floats

#: CPU usage (fraction) the brokers start at: hot, middling, nearly idle.
SKEW = (0.89, 0.54, 0.07, 0.47, 0.85, 0.11, 0.43, 0.36)
NAMESPACES = ("shop/orders", "shop/clicks")
#: The busiest bundle has this many times the traffic of the quietest one.
RATE_RATIO = 16.0
HASH_SPACE = 2**32


def skewed_cluster(cluster: str = "demo", seed: int = 1, bundles: int = 256, usage: Sequence[float] = SKEW) -> SimulatedCluster:
    """A cluster whose brokers start at about the given CPU `usage`, one entry per broker; names and figures follow from the seed."""
    hardware = Hardware()
    brokers = tuple(BrokerModel(f"broker-{number + 1}:8080", hardware) for number in range(len(usage)))
    wanted = np.array([max(0.0, share * hardware.cpu_limit - hardware.cpu_idle) for share in usage])
    costs = _shares(bundles, seed) * wanted.sum()
    names = _bundle_names(bundles)
    model = ClusterModel(cluster, brokers, tuple(_bundle(*pair, hardware) for pair in zip(names, costs.tolist(), strict=True)), seed)
    return SimulatedCluster(model, _deal(names, costs, [broker.name for broker in brokers], wanted))


def _shares(bundles: int, seed: int) -> Floats:
    """float64[bundles]: each bundle's share of all traffic, many small ones and a few large; sums to 1."""
    weights = 1.0 / (1.0 - (1.0 - 1.0 / RATE_RATIO) * uniform(bundles, seed, 0))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _bundle(name: str, cpu: float, hardware: Hardware) -> BundleModel:
    """A bundle of 1 KiB messages, read once, that costs `cpu` percent of one core."""
    per_message = 2 * (hardware.cpu_per_message + 1024.0 * hardware.cpu_per_byte)
    return BundleModel(name, round(cpu / per_message, 1))


def _bundle_names(count: int) -> list[str]:
    """Equal hash ranges in each of the namespaces, the last one ending as Pulsar's does."""
    sizes = [count - count // 2, count // 2]
    return [f"{namespace}/{range_}" for namespace, size in zip(NAMESPACES, sizes, strict=True) for range_ in _ranges(size)]


def _ranges(count: int) -> list[str]:
    bounds = [HASH_SPACE * place // count for place in range(count)] + [HASH_SPACE - 1] if count else []
    return [f"0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]


def _deal(names: Sequence[str], costs: Floats, brokers: Sequence[str], wanted: Floats) -> dict[str, str]:
    """Bundle → broker: the costliest bundle first, always to the broker that is furthest from what it should carry."""
    missing = wanted.copy()
    owners = {}
    for row in np.argsort(-costs, kind="stable"):
        target = int(missing.argmax())
        missing[target] -= costs[row]
        owners[names[row]] = brokers[target]
    return owners
