"""Reading and replacing the smoothed usage that placements remember per broker, without touching what others remember there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from strategies.model import NO_MEMORY, Memory


def smoothed(memory: Memory) -> dict[str, float]:
    """Broker → smoothed usage (fraction), where there is any."""
    return {broker: kept.placement_ewma for broker, kept in memory.brokers.items() if kept.placement_ewma is not None}


def with_smoothed(memory: Memory, usages: Mapping[str, float]) -> Memory:
    """Memory with these usages; brokers that are not named keep theirs."""
    changed = {broker: replace(memory.brokers.get(broker, NO_MEMORY), placement_ewma=usage) for broker, usage in usages.items()}
    return replace(memory, brokers={**memory.brokers, **changed}) if changed else memory


def only_active(memory: Memory, active: Collection[str]) -> Memory:
    """Memory in which only brokers of `active` have a smoothed usage."""
    live = frozenset(active)
    gone = {broker for broker, kept in memory.brokers.items() if kept.placement_ewma is not None and broker not in live}
    if not gone:
        return memory
    cleared = {broker: replace(kept, placement_ewma=None) if broker in gone else kept for broker, kept in memory.brokers.items()}
    return replace(memory, brokers={broker: kept for broker, kept in cleared.items() if broker not in gone or kept != NO_MEMORY})
