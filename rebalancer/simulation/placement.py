"""Where Pulsar's leader puts a bundle that was unloaded without a destination, in simple form.

The rule is LeastLongTermMessageRate: the broker with the lowest long-term message rate. Left out: namespace policies, the even
distribution of a namespace's bundles, and the random choice among equals (the first one is taken). The leader is
assumed to know of every earlier move, as it does when clients look their bundles up one after the other.
"""

from __future__ import annotations

from rebalancer.simulation.cluster import SimulatedCluster


def least_long_term_rate(cluster: SimulatedCluster, bundle: str) -> str:
    """The broker that takes the bundle; never the one that has just given it away. Raises ValueError when there is no other."""
    candidates = [broker for broker in cluster.brokers if broker != cluster.owner(bundle)]
    return min(candidates, key=cluster.long_term_rate)
