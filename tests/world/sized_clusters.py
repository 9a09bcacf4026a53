"""Clusters in units of load, as `rebalancer advise` sees them after a recording has been read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pulsar_rebalancer.lab.advise.sized_cluster import SizedCluster
from strategies.bundles import Floats
from strategies.filters.policies import PoliciesView
from strategies.fold.engine import EngineSettings, rules_of

FILTERS = rules_of(EngineSettings()).destinations.filters


def a_cluster(
    sizes: Floats,
    power: Sequence[float],
    *,
    namespaces: Sequence[str] = ("t/n",),
    policies: PoliciesView = PoliciesView(),
    topics: int = 3,
) -> SizedCluster:
    """`sizes`: float64[bundles, steps], usage of a broker of power 1; bundles are on brokers, and
    in namespaces, by turns. A broker without bundles is 5 % busy.
    """
    count, brokers = len(sizes), len(power)
    wide = 2**32 // max(count, 1)
    ranges = [f"0x{at * wide:08x}_0x{(at + 1) * wide - 1:08x}" for at in range(count)]
    return SizedCluster(
        tuple(f"{namespaces[at % len(namespaces)]}/{one}" for at, one in enumerate(ranges)),
        sizes,
        np.arange(count) % brokers,
        np.full(count, topics),
        np.zeros(count),
        np.zeros(count, dtype=bool),
        np.ones(count),
        tuple(f"b{at}:8080" for at in range(brokers)),
        np.array(power),
        np.array(power),
        np.full(brokers, 0.05),
        1.0,
        1.0,
        0.0,
        sizes.sum(axis=0),
        FILTERS,
        policies,
    )


def drawn(seed: int, *, busy: tuple[float, float] = (0.2, 0.7), steps: int = 24) -> SizedCluster:
    """A random cluster of 2 to 8 brokers that are this busy at the peak, equal ones in half of the
    cases; the load of bundles is steady in half of the cases.
    """
    chance = np.random.default_rng(seed)
    brokers = int(chance.integers(2, 9))
    count = int(chance.integers(brokers, 6 * brokers))
    power = np.ones(brokers) if chance.integers(2) else chance.uniform(0.7, 1.5, brokers)
    wobble = chance.uniform(0.6, 1.2, (count, steps)) if chance.integers(2) else np.ones((count, 1))
    sizes = chance.lognormal(0, chance.choice([0.3, 0.8]), (count, 1)) * wobble
    sizes *= power.sum() * chance.uniform(*busy) / sizes.sum(axis=0).max()
    return replace(a_cluster(sizes, power.tolist()), growth=float(chance.choice([1.0, 1.1])))


def isolation(namespace: str, primary: str, secondary: str = "", least: int = 1) -> str:
    """A snapshot of policies: the brokers of a namespace."""
    failover = f'{{"policy_type": "min_available", "parameters": {{"min_limit": {least}}}}}'
    return (
        f'{{"isolation": {{"p": {{"namespaces": ["{namespace}"], "primary": ["{primary}"], '
        f'"secondary": [{secondary}], "auto_failover_policy": {failover}}}}}}}'
    )
