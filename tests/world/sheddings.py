"""Rounds of a shedder one after the other, and what they decided, as tests compare it."""

from strategies.cluster.model import ClusterView, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.shedding.contract import Shedder, Shedding


def play(shedder: Shedder, *views: ClusterView, memory: Memory | None = None) -> list[Shedding]:
    """One round after the other, each remembering what the last one left."""
    memory, rounds = memory or Memory(), []
    for seen in views:
        rounds.append(shedder.shed(seen, memory))
        memory = rounds[-1].memory
    return rounds


def picked(shedding: Shedding) -> dict[str, list[str]]:
    """Source → bundles that leave, both in order of execution."""
    result: dict[str, list[str]] = {}
    for decision in shedding.decisions:
        result.setdefault(decision.source, []).append(decision.bundle)
    return result


def skip_of(shedding: Shedding, name: str) -> Skip:
    """The reason a broker or bundle was left alone; fails when there is none or more than one."""
    (found,) = [skip for skip in shedding.skips if name in skip.names]
    return found


def codes(shedding: Shedding) -> dict[str, str]:
    """Name → reason code of everything left alone."""
    return {name: skip.code for skip in shedding.skips for name in skip.names}


def ewmas(shedding: Shedding) -> dict[str, float]:
    return {
        name: kept.ewma for name, kept in shedding.memory.brokers.items() if kept.ewma is not None
    }


def hits(shedding: Shedding) -> dict[str, tuple[int | None, int | None]]:
    """Broker → (hits of the high threshold, of the low one)."""
    return {name: (kept.hit_high, kept.hit_low) for name, kept in shedding.memory.brokers.items()}
