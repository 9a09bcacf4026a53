"""Reading and replacing the smoothed usage that placements remember per broker, without touching what others remember there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strategies.model import NO_MEMORY, Memory


def smoothed(memory: Memory) -> dict[str, float]:
    """Broker → smoothed usage (fraction), where there is any."""
    return {broker: kept.placement_ewma for broker, kept in memory.brokers.items() if kept.placement_ewma is not None}


def with_smoothed(memory: Memory, usages: Mapping[str, float]) -> Memory:
    """Memory with these usages; brokers that are not named keep theirs."""
    changed = {broker: replace(memory.brokers.get(broker, NO_MEMORY), placement_ewma=usage) for broker, usage in usages.items()}
    return replace(memory, brokers={**memory.brokers, **changed}) if changed else memory
