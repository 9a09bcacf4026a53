"""Reads and replaces the shedders' memory per broker, without changing the memory of other
rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import TypeVar

from strategies.cluster.strategy_memory import NO_MEMORY, BrokerMemory, Memory, Private

T = TypeVar("T")


def kept_of(memory: Memory, value: Callable[[BrokerMemory], T | None]) -> dict[str, T]:
    """Broker → this value of its memory; no entry for brokers without one."""
    values = map(value, memory.brokers.values())
    return {
        broker: found
        for broker, found in zip(memory.brokers, values, strict=True)
        if found is not None
    }


def with_ewmas(memory: Memory, ewmas: Mapping[str, float]) -> Memory:
    """Memory with these averages; brokers that are not named keep theirs."""
    changed = {
        broker: replace(memory.brokers.get(broker, NO_MEMORY), ewma=ewma)
        for broker, ewma in ewmas.items()
    }
    return Memory({**memory.brokers, **changed}, memory.cluster)


def with_transfers(
    memory: Memory, averages: Mapping[str, tuple[float, float]], gave_at_ms: Mapping[str, int]
) -> Memory:
    """Memory with these averages of usage and throughput (other brokers keep theirs) and with
    exactly these times of shedding.
    """
    averaged = {
        broker: replace(
            memory.brokers.get(broker, NO_MEMORY), ewma=usage, throughput_ewma=throughput
        )
        for broker, (usage, throughput) in averages.items()
    }
    brokers = {**memory.brokers, **averaged}
    for broker in dict.fromkeys((*kept_of(memory, attrgetter("gave_at_ms")), *gave_at_ms)):
        put_memory(
            brokers,
            broker,
            replace(brokers.get(broker, NO_MEMORY), gave_at_ms=gave_at_ms.get(broker)),
        )
    return Memory(brokers, memory.cluster)


def with_histories(memory: Memory, histories: Mapping[str, Private]) -> Memory:
    """Memory with exactly these histories; a broker that is not named has none."""
    brokers = dict(memory.brokers)
    for broker in [name for name in brokers if name not in histories]:
        if brokers[broker].history is not None:
            put_memory(brokers, broker, replace(brokers[broker], history=None))
    for broker, history in histories.items():
        old = brokers.get(broker, NO_MEMORY)
        # Field by field: `replace` takes three times as long, for thousands of brokers each round.
        brokers[broker] = BrokerMemory(
            old.ewma,
            old.placement_ewma,
            old.hit_high,
            old.hit_low,
            old.throughput_ewma,
            old.gave_at_ms,
            history,
        )
    return Memory(brokers, memory.cluster)


def hit_counts(memory: Memory) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of the high and of the low threshold; a broker without an entry is absent, which
    differs from zero.
    """
    return kept_of(memory, attrgetter("hit_high")), kept_of(memory, attrgetter("hit_low"))


def with_hit_counts(memory: Memory, high: Mapping[str, int], low: Mapping[str, int]) -> Memory:
    """Memory with exactly these counts; a broker in neither mapping has no counts."""
    brokers = dict(memory.brokers)
    counted = [
        broker
        for broker, kept in memory.brokers.items()
        if kept.hit_high is not None or kept.hit_low is not None
    ]
    for broker in dict.fromkeys((*counted, *high, *low)):
        old = brokers.get(broker, NO_MEMORY)
        if (old.hit_high, old.hit_low) != (high.get(broker), low.get(broker)):
            put_memory(
                brokers, broker, replace(old, hit_high=high.get(broker), hit_low=low.get(broker))
            )
    return Memory(brokers, memory.cluster)


def put_memory(brokers: dict[str, BrokerMemory], broker: str, kept: BrokerMemory) -> None:
    """Replaces what is kept of a broker; nothing is no entry."""
    if kept == NO_MEMORY:
        brokers.pop(broker, None)
    else:
        brokers[broker] = kept
