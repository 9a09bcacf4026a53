"""What Pulsar's classes forget when the set of live brokers changes (`onActiveBrokersChange`).

A live round needs no such call: the memory of a broker is part of its state and goes with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal

from strategies.model import Memory


def only_active(
    memory: Memory, active: Collection[str] | None, average: Literal["ewma", "placement_ewma"]
) -> Memory:
    """Memory in which only brokers of `active` have this average; None changes nothing."""
    if active is None:
        return memory
    live, nothing = frozenset(active), dict[str, Any]({average: None})
    return replace(
        memory,
        brokers={
            broker: kept if broker in live else replace(kept, **nothing)
            for broker, kept in memory.brokers.items()
        },
    )
