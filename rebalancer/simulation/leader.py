"""Where Pulsar's leader puts a bundle that no broker serves.

Between rounds bundles are looked up one after the other (a broker died, or a command named no destination). `Leader` asks the placement of
the settings, with the reports and the memory of the rounds: in parity mode no look-up counts for the next one but through the placement's
own memory, as in Java; in fixed mode each does. `LongTermRates` goes by the traffic itself, for loops whose rounds are held elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from rebalancer.simulation.world import World
from strategies.averages.bundle_averages import unpack_history
from strategies.bundles.bundle_loads import BundleLoads, no_bundles
from strategies.engine import EngineSettings, placement_of
from strategies.filters.anti_affinity import Counts, anti_affine, group_members, namespaces_served
from strategies.filters.contract import namespace_of, remaining
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.model import BrokerLoad, BrokerMemory, Memory
from strategies.placement.contract import Placer, Request, seed_of
from strategies.placement.ledger import CountedMove, Ledger
from strategies.placement.registry import placer
from strategies.store import BrokerState, InMemoryStore

#: What Pulsar places by unless it is set (`loadBalancerLoadPlacementStrategy` of 4.2).
_PULSARS_OWN = "least_long_term_rate"
#: Pulsar's long-term averages are over at most this many samples.
LONG_TERM_SAMPLES = 1000
NO_POLICIES = PoliciesView()
#: Broker → namespace → bundles of it.
Served = Mapping[str, Mapping[str, int]]
_NOTHING: Served = MappingProxyType({})


class Placing(Protocol):
    """Names a broker for bundles that have none."""

    @property
    def counts_namespaces(self) -> bool:
        """Whether it needs `served`."""

    def places(self, wanted: list[tuple[str, str]], candidates: list[str], served: Served = _NOTHING) -> list[str | None]:
        """A broker for each (bundle, broker it was on), one after the other; None where no broker can be named.

        `served` leaves out the bundles that are wanted.
        """


class Leader:
    """Places bundles; reads and writes the same memory as the rounds do. Of all filters it knows isolation and anti-affinity."""

    def __init__(self, settings: EngineSettings, cluster: str, store: InMemoryStore, policies: PoliciesView = NO_POLICIES) -> None:
        name, placing = placement_of(settings)
        self._placer: Placer = placer(_PULSARS_OWN if name == "none" else name, placing, settings.mode)
        self._settings, self._cluster, self._store, self._policies = settings, cluster, store, policies
        self._lookups = 0

    @property
    def counts_namespaces(self) -> bool:
        """Only anti-affinity groups count them."""
        return bool(self._policies.groups)

    def places(self, wanted: list[tuple[str, str]], candidates: list[str], served: Served = _NOTHING) -> list[str | None]:
        """As `Placing`."""
        counted = {broker: Counter(served.get(broker, {})) for broker in candidates}
        known = sorted(self._store.brokers(), key=lambda state: state.order)
        ledger = Ledger([_load(state, self._store) for state in known], self._settings.weights)
        cluster = self._store.get_cluster()
        memory = Memory({state.broker: state.memory for state in known}, cluster.memory)
        chosen: list[str | None] = []
        for bundle, source in wanted:
            averages = ledger.averages(bundle, source)
            self._lookups += 1
            allowed = self._allowed(namespace_of(bundle), candidates, counted)
            asked = {name: ledger.candidate(name) for name in allowed if ledger.candidate(name) is not None}
            found = self._placer.place(Request(bundle, averages, asked, seed_of(self._cluster, -self._lookups, bundle)), memory)
            memory = found.memory
            chosen.append(found.chosen)
            if found.chosen is not None:
                counted[found.chosen][namespace_of(bundle)] += 1
            if self._settings.mode == "fixed" and found.chosen is not None:
                ledger.count(CountedMove(bundle, source, found.chosen, averages))
        self._remember(memory, known)
        return chosen

    def _allowed(self, namespace: str, candidates: list[str], served: Mapping[str, Counts]) -> tuple[str, ...]:
        """Those that isolation allows, and of them those with the least of the namespace's anti-affinity group."""
        allowed = remaining(candidates, isolated(self._policies, namespace, candidates, non_persistent=False))
        members = group_members(self._policies.groups, namespace)
        if not members:
            return allowed
        counts = namespaces_served(members, allowed, served.__getitem__)
        domains = self._policies.domains if self._settings.filters.failure_domains and self._policies.domains else None
        return remaining(allowed, anti_affine(allowed, counts, domains))

    def _remember(self, memory: Memory, known: list[BrokerState]) -> None:
        nothing = BrokerMemory()
        for state in known:
            remembered = memory.brokers.get(state.broker, nothing)
            if remembered != state.memory:
                self._store.put_broker(replace(state, memory=remembered))
        self._store.put_cluster(replace(self._store.get_cluster(), memory=memory.cluster))


class LongTermRates:
    """The broker with the lowest long-term message rate; among equals the first. Knows of every earlier move."""

    counts_namespaces = False

    def __init__(self, world: World) -> None:
        self._world, self._samples, self._rate = world, 0, np.zeros(0)

    def learn(self) -> None:
        """One more sample was measured."""
        now = self._world.sampled[0] + self._world.sampled[1]
        self._samples = min(self._samples + 1, LONG_TERM_SAMPLES)
        before = np.append(self._rate, np.zeros(len(now) - len(self._rate)))
        self._rate = ((self._samples - 1) * before + now) / self._samples

    def places(self, wanted: list[tuple[str, str]], candidates: list[str], served: Served = _NOTHING) -> list[str | None]:
        """As `Placing`."""
        return [min(candidates, key=self._of_broker, default=None)] * len(wanted)

    def _of_broker(self, broker: str) -> float:
        return float(self._rate[self._world.rows_of(self._world.fleet.names.index(broker))].sum())


def _load(state: BrokerState, store: InMemoryStore) -> BrokerLoad:
    return BrokerLoad(
        state.broker, state.figures, partial(_table, store, state.broker), summary=state.table, reported_at_ms=state.reported_at_ms
    )


def _table(store: InMemoryStore, broker: str) -> BundleLoads:
    packed = store.get_table(broker)
    return no_bundles() if packed is None else unpack_history(packed).loads()
