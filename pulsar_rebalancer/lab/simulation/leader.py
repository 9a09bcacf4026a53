"""Placement of bundles without an owner by Pulsar's leader.

Between rounds, clients look up bundles in sequence (a broker died, or a command named no
destination). `Leader` calls the placement of the settings, with the reports and the memory of the
rounds. In parity mode a look-up affects later ones only through the placement's own memory, as in
Java; in fixed mode the placed bundle counts too. `LongTermRates` uses the traffic itself, for loops
with another decider.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from pulsar_rebalancer.lab.simulation.broker_measurements import World
from strategies.averages.bundle_averages import unpack_history
from strategies.bundles import BundleLoads, namespace_of, no_bundles
from strategies.cluster.cluster_state import BrokerState, InMemoryStore
from strategies.cluster.model import BrokerLoad, Command, Round
from strategies.cluster.strategy_memory import BrokerMemory, Memory
from strategies.filters.anti_affinity import Counts, anti_affine, group_members, namespaces_served
from strategies.filters.filter_input_and_result import remaining
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.pulsar_versions_and_defaults import MODE_RULES
from strategies.placement.contract import Placer, Request, seed_of
from strategies.placement.expected_load_ledger import CountedMove, Ledger
from strategies.placement.registry import placer, pulsars_own

#: Maximum number of samples in Pulsar's long-term averages.
LONG_TERM_SAMPLES = 1000
NO_POLICIES = PoliciesView()
#: Broker → namespace → number of its bundles.
Served = Mapping[str, Mapping[str, int]]
_NOTHING: Served = MappingProxyType({})


class Leader:
    """Places bundles with the rounds' settings and memory. Applies only the filters for isolation
    and anti-affinity.
    """

    def __init__(
        self,
        settings: EngineSettings,
        cluster: str,
        store: InMemoryStore,
        policies: PoliciesView = NO_POLICIES,
    ) -> None:
        self._placer = _placer_of(settings)
        self._settings, self._cluster, self._store, self._policies = (
            settings,
            cluster,
            store,
            policies,
        )
        self._lookups = 0

    @property
    def counts_namespaces(self) -> bool:
        """Whether there are anti-affinity groups, which need the counts."""
        return bool(self._policies.groups)

    def places(
        self, wanted: list[tuple[str, str]], candidates: list[str], served: Served = _NOTHING
    ) -> list[str | None]:
        """See `Placing.places`."""
        counted = {broker: Counter(served.get(broker, {})) for broker in candidates}
        known = sorted(self._store.brokers(), key=lambda state: state.order)
        ledger = Ledger([_load(state, self._store) for state in known], self._settings.weights)
        memory = Memory(
            {state.broker: state.memory for state in known}, self._store.get_cluster().memory
        )
        chosen: list[str | None] = []
        for bundle, source in wanted:
            averages = ledger.averages(bundle, source)
            self._lookups += 1
            asked = {
                name: ledger.candidate(name)
                for name in self._allowed(namespace_of(bundle), candidates, counted)
                if ledger.candidate(name) is not None
            }
            found = self._placer.place(
                Request(bundle, averages, asked, seed_of(self._cluster, -self._lookups, bundle)),
                memory,
            )
            memory = found.memory
            chosen.append(found.chosen)
            if found.chosen is not None:
                counted[found.chosen][namespace_of(bundle)] += 1
            if MODE_RULES[self._settings.mode].counts_moves and found.chosen is not None:
                ledger.count(CountedMove(bundle, source, found.chosen, averages))
        self._remember(memory, known)
        return chosen

    def _allowed(
        self, namespace: str, candidates: list[str], served: Mapping[str, Counts]
    ) -> tuple[str, ...]:
        """Candidates that isolation allows; of these, the ones with the fewest members of the
        namespace's anti-affinity group.
        """
        allowed = remaining(
            candidates, isolated(self._policies, namespace, candidates, non_persistent=False)
        )
        members = group_members(self._policies.groups, namespace)
        if not members:
            return allowed
        counts = namespaces_served(members, allowed, served.__getitem__)
        domains = (
            self._policies.domains
            if self._settings.filters.failure_domains and self._policies.domains
            else None
        )
        return remaining(allowed, anti_affine(allowed, counts, domains))

    def _remember(self, memory: Memory, known: list[BrokerState]) -> None:
        nothing = BrokerMemory()
        for state in known:
            remembered = memory.brokers.get(state.broker, nothing)
            if remembered != state.memory:
                self._store.put_broker(replace(state, memory=remembered))
        self._store.put_cluster(replace(self._store.get_cluster(), memory=memory.cluster))


class LongTermRates:
    """Chooses the broker with the lowest long-term message rate, the first among equals. Counts all
    earlier moves.
    """

    counts_namespaces = False

    def __init__(self, world: World) -> None:
        self._world, self._samples, self._rate = world, 0, np.zeros(0)

    def learn(self) -> None:
        """Adds the newest sample to the averages."""
        now = self._world.sampled[0] + self._world.sampled[1]
        self._samples = min(self._samples + 1, LONG_TERM_SAMPLES)
        before = np.append(self._rate, np.zeros(len(now) - len(self._rate)))
        self._rate = ((self._samples - 1) * before + now) / self._samples

    def places(
        self, wanted: list[tuple[str, str]], candidates: list[str], served: Served = _NOTHING
    ) -> list[str | None]:
        """See `Placing.places`."""
        return [min(candidates, key=self._of_broker, default=None)] * len(wanted)

    def _of_broker(self, broker: str) -> float:
        return float(self._rate[self._world.rows_of(self._world.fleet.names.index(broker))].sum())


#: Chooses brokers for bundles without an owner: in a scenario, and in the cluster of the demo.
Placing = Leader | LongTermRates


def placed_after(command: Command, record: Round) -> Command:
    """The command with a destination: by default the least busy broker after the round, the most
    likely choice of the leader. For back-tests, in which clients look up no bundle.
    """
    if command.destination is not None:
        return command
    others = {
        broker: usage for broker, usage in record.usage_after.items() if broker != command.source
    }
    return (
        replace(command, destination=min(others, key=lambda broker: (others[broker], broker)))
        if others
        else command
    )


def _placer_of(settings: EngineSettings) -> Placer:
    """The placement of the settings; Pulsar's own where they leave destinations to it. The own one
    of 5.0 draws at random, which only parity does.
    """
    name, placing = placement_of(settings)
    release = settings.pulsar_version
    if name != "none":
        return placer(name, placing, settings.mode, release)
    return placer(
        pulsars_own(release), None, settings.mode if release == "4.2" else "parity", release
    )


def _load(state: BrokerState, store: InMemoryStore) -> BrokerLoad:
    return BrokerLoad(
        state.broker,
        state.figures,
        partial(_table, store, state.broker),
        summary=state.table,
        reported_at_ms=state.reported_at_ms,
    )


def _table(store: InMemoryStore, broker: str) -> BundleLoads:
    packed = store.get_table(broker)
    return no_bundles() if packed is None else unpack_history(packed).loads()
