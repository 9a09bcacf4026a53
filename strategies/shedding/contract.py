"""What every shedding strategy answers to; the registry, the round and the conformance runner know nothing else of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from strategies.model import BrokerLoad, ClusterView, Memory, Shedding


class Shedder(Protocol):
    """A rule that picks bundles to move. Holds settings only; everything it remembers is in `Memory`."""

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        """One round. Never raises on a legal view. A broker or bundle it leaves alone appears in `skips` with a reason code."""

    def retain(self, memory: Memory, active: Collection[str]) -> Memory:
        """Memory after the set of live brokers changed (Pulsar: `onActiveBrokersChange`)."""

    def usage(self, broker: BrokerLoad) -> float:
        """The usage (fraction) this rule judges a broker by before any history, for round records."""
