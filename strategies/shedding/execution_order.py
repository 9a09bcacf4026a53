"""The order in which Pulsar carries out a shedder's picks: that of the result multimap, which is
cleared but never shrinks.

Source of the rule: the `selectedBundlesCache` (ArrayListMultimap) of OverloadShedder,
ThresholdShedder and UniformLoadShedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strategies.cluster.memory import Memory
from strategies.cluster.model import Decision
from strategies.java.hash_order import INITIAL_TABLE, hash_map_order


def as_executed(
    decisions: Sequence[Decision], memory: Memory, table: str
) -> tuple[tuple[Decision, ...], Memory]:
    """Source brokers in the order of the multimap, bundles as they were picked; `table` names its
    size in the memory.
    """
    sources = list(dict.fromkeys(decision.source for decision in decisions))
    before = memory.cluster.table_sizes.get(table, INITIAL_TABLE)
    order, size = hash_map_order(sources, before)
    rank = {sources[index]: position for position, index in enumerate(order.tolist())}
    if size != before:
        memory = Memory(
            memory.brokers,
            replace(memory.cluster, table_sizes={**memory.cluster.table_sizes, table: size}),
        )
    return tuple(sorted(decisions, key=lambda decision: rank[decision.source])), memory
