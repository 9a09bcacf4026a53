"""RoundRobinBrokerSelector: the candidates take bundles one after the other, whatever their load.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector` of Pulsar
4.2.4. It remembers a copy of the candidates and a counter, in `ClusterMemory.rotation` and `turn`.
"""

from dataclasses import dataclass, replace

from strategies.cluster.strategy_memory import Memory
from strategies.java.hash_order import hash_map_order
from strategies.placement.contract import Placement, PlacementStrategy, Request, unplaced

_LAST_TURN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RoundRobinSettings:
    """RoundRobinBrokerSelector has no settings."""


@dataclass(frozen=True)
class ParityRoundRobin:
    """The rule exactly as in Java: the order is that of a hash set, kept until it no longer matches
    the candidates.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the next candidate of the remembered copy."""
        names = list(request.candidates)
        if not names:
            return unplaced(memory)
        cluster = memory.cluster
        rotation, position = cluster.rotation, cluster.turn % len(names)
        if len(rotation) != len(names) or rotation[position] not in request.candidates:
            rotation = tuple(names[index] for index in hash_map_order(names)[0].tolist())
        following = 0 if cluster.turn >= _LAST_TURN else cluster.turn + 1
        kept = replace(memory, cluster=replace(cluster, rotation=rotation, turn=following))
        return _taken(rotation[position], len(names), kept)


@dataclass(frozen=True)
class RoundRobin:
    """The rule by name: the next candidate after the one that took the last bundle, even if brokers
    joined or left in between.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses the next name, or the first one after the last."""
        names = sorted(request.candidates)
        if not names:
            return unplaced(memory)
        last = memory.cluster.rotation[0] if memory.cluster.rotation else ""
        chosen = next((name for name in names if name > last), names[0])
        kept = replace(memory, cluster=replace(memory.cluster, rotation=(chosen,), turn=0))
        return _taken(chosen, len(names), kept)


def _taken(chosen: str, count: int, memory: Memory) -> Placement:
    return Placement(
        (chosen,), chosen, memory, "its-turn", f"is next in turn of {count} candidates"
    )


ENTRY = PlacementStrategy(
    "round_robin",
    "org.apache.pulsar.broker.loadbalance.impl.RoundRobinBrokerSelector",
    "One broker after the other, whatever their load.",
    RoundRobinSettings,
    lambda _: RoundRobin(),
    lambda _: ParityRoundRobin(),
    remembers=True,
)
