"""Bundles that are elsewhere than recorded from the start: those of brokers that never were, and
those that new isolation policies unload. The placement of the settings puts them on other brokers,
as Pulsar's leader does when clients look them up; their load follows as in the closed loop.

Source of the rule of unloads: `ClustersBase.filterAndUnloadMatchedNamespaceAsync` of Pulsar 4.2 and
5.0 (PIP-369). A POST of a policy unloads all bundles of a matched namespace at once, wherever they
are. Scope `none` unloads nothing, `all_matching` what old or new patterns match, `changed` (the
default) what a pattern matches that only one of them has, but as `all_matching` where the primary
brokers differ. To delete a policy unloads nothing.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pulsar_rebalancer.lab.backtest.reassigned import Idle, Reassigned
from pulsar_rebalancer.lab.simulation.leader import Leader
from sinks.recordings.columnar import KINDS
from sinks.recordings.columnar_reading import Block
from strategies.bundles import is_system_bundle, namespace_of
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import BundleStats, LoadReport, Owned, Sweep, TelemetryRecord
from strategies.errors import SettingsError
from strategies.filters.policies import read_policies
from strategies.fold.engine import Engine, EngineSettings
from strategies.java.regex import compile_java

#: Policy name → the policy as Pulsar's admin API gives it.
PoliciesByName = Mapping[str, Mapping[str, Any]]
_SCOPES = (None, "all_matching", "changed", "none")


def read_policies_file(path: Path) -> PoliciesByName:
    """The isolation policies of a file: by name, as a list, or in a snapshot of all policies.
    Raises SettingsError for what cannot be read, or followed.
    """
    try:
        tree = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError([f"--policies: {path} cannot be read as JSON ({error})"]) from error
    tree = tree.get("isolation", tree) if isinstance(tree, dict) else tree
    found = policies_by_name(tree)
    complaints = [
        *read_policies(json.dumps({"isolation": tree})).complaints,
        *(
            f"{name}: unload_scope must be all_matching, changed or none"
            for name, policy in found.items()
            if policy.get("unload_scope") not in _SCOPES
        ),
    ]
    if complaints:
        form = "write policies as `pulsar-admin ns-isolation-policy list` prints them, by name"
        raise SettingsError([f"--policies: {path}: {one}; {form}" for one in complaints])
    return found


def policies_by_name(tree: Any) -> PoliciesByName:
    """The policies of an object or a list; what is no policy is left out."""
    named = tree.items() if isinstance(tree, dict) else enumerate(tree or ())
    return {
        (name if isinstance(name, str) else str(one.get("name", name))): {
            key: value for key, value in one.items() if key != "name" and value is not None
        }
        for name, one in named
        if isinstance(one, dict)
    }


def unloaded_namespaces(
    old: PoliciesByName, new: PoliciesByName, namespaces: Collection[str]
) -> dict[str, str]:
    """Namespace → the first policy that unloads it, when every new or changed policy is posted.
    `namespaces`: those of the cluster.
    """
    found: dict[str, str] = {}
    for name, policy in new.items():
        patterns = [compile_java(text) for text in _patterns(old.get(name), policy)]
        matched = [one for one in namespaces if any(each.matches(one) for each in patterns)]
        found = dict.fromkeys(matched, name) | found
    return found


def _patterns(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """The patterns of the namespaces that a post of `new` in place of `old` unloads."""
    if new == old or new.get("unload_scope") == "none":
        return []
    before, after = {*(old or {}).get("namespaces", ())}, {*new["namespaces"]}
    everything = new.get("unload_scope") == "all_matching" or (
        old is not None and sorted(old.get("primary", ())) != sorted(new["primary"])
    )
    return sorted(before | after if everything else before ^ after)


class StartElsewhere:
    """Puts the bundles of one cluster on their brokers, pass by pass. `unloads`: the bundles that
    new policies unload: policy, bundle, source, and destination, None if no broker may take it.
    """

    def __init__(
        self,
        removed: Collection[str],
        old: PoliciesByName,
        new: PoliciesByName | None,
        settings: EngineSettings,
        idle: Idle,
    ) -> None:
        """`old`, `new`: isolation policies before and after; None: they stay. `idle`: usage that
        no bundle takes along.
        """
        self._removed, self._old, self._new = removed, old, new
        self._settings, self._idle = settings, idle
        self._engine, self._store = Engine(settings), InMemoryStore()
        self._leader: Leader | None = None
        #: Bundle → its broker, for those that are not where they were recorded; empty: no broker
        #: may take it.
        self._homes: dict[str, str] = {}
        #: Brokers that may have bundles, and those that reported, in the last pass.
        self._there, self._reported = set[str](), set[str]()
        self.unloads: list[dict[str, str | None]] = []

    def passes(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks, cut after sweeps. The reports of removed brokers have no bundles left."""
        for block in blocks:
            ends = [row + 1 for row, kind in enumerate(block.kinds) if KINDS[kind] == "sweep"]
            for begin, end in pairwise(sorted({0, *ends, len(block)})):
                yield self._rehomed(block.between(begin, end))

    def _rehomed(self, block: Block) -> Block:
        records = [record for row in range(len(block)) if (record := block.record(row)) is not None]
        listed = _listed(records)
        sweep = next((record for record in records if isinstance(record, Sweep)), None)
        if sweep is not None:
            (self._begin if self._leader is None else self._place)(records, listed, sweep)
        return (
            Reassigned(block, records[0].cluster, self._homes, self._idle).made()
            if records
            else block
        )

    def _begin(
        self,
        records: Iterable[TelemetryRecord],
        listed: Mapping[str, Collection[str]],
        sweep: Sweep,
    ) -> None:
        """Learns the cluster from its first pass, or from two where the first began before the
        recording; then names the unloaded bundles, and places all bundles that need a broker.
        """
        again = any(True for _ in self._store.brokers())
        whole = replace(sweep, brokers=(*sweep.brokers, *self._removed))
        for record in records:
            self._engine.fold(whole if record is sweep else record, self._store)
        if not again and not listed.keys() >= {*sweep.brokers}:
            return
        policies = read_policies(self._store.get_cluster().policies)
        self._leader = Leader(self._settings, sweep.cluster, self._store, policies)
        namespaces = {namespace_of(name): None for names in listed.values() for name in names}
        policy_of = unloaded_namespaces(self._old, self._new or {}, sorted(namespaces))
        found = {
            bundle: (policy_of[namespace_of(bundle)], broker)
            for broker, bundles in listed.items()
            for bundle in bundles
            if namespace_of(bundle) in policy_of
            # Pulsar stores no namespaces for heartbeats.
            if not is_system_bundle(bundle) or bundle.startswith("pulsar/system/")
        }
        self._homes = dict.fromkeys(found, "")
        self._place(records, listed, sweep)
        self.unloads = [
            {
                "policy": policy,
                "bundle": bundle,
                "source": source,
                "destination": self._homes[bundle] or None,
            }
            for bundle, (policy, source) in sorted(found.items())
        ]

    def _place(self, _: object, listed: Mapping[str, Collection[str]], sweep: Sweep) -> None:
        """Finds a broker for each bundle that needs one: whose broker never was, or is gone."""
        assert self._leader is not None
        # Who is silent once keeps its bundles, who is silent longer is gone.
        there = {*listed, *(sweep.missing.keys() & self._reported)} - {*self._removed}
        changed, self._there, self._reported = there != self._there, there, {*listed}
        wanted = [
            (bundle, broker)
            for broker in (listed if changed else self._removed)
            for bundle in listed.get(broker, ())
            if (bundle in self._homes or broker in self._removed) and not is_system_bundle(bundle)
            if (changed or bundle not in self._homes) and self._homes.get(bundle) not in there
        ]
        takers = [broker for broker in listed if broker not in self._removed]
        homes = (
            self._leader.places(
                wanted, takers, {one: Counter(map(namespace_of, listed[one])) for one in takers}
            )
            if wanted
            else []
        )
        for (bundle, _), home in zip(wanted, homes, strict=True):
            self._homes[bundle] = home or ""


def _listed(records: Iterable[TelemetryRecord]) -> dict[str, dict[str, None]]:
    """Broker → its bundles, also those that only the collector's note lists."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if isinstance(record, LoadReport | Owned):
            names = record.bundles or ()
            found.setdefault(record.broker, {}).update(
                dict.fromkeys(names.names if isinstance(names, BundleStats) else names)
            )
    return found
