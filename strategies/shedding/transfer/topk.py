"""The heaviest bundles of a broker, in the order in which the extensible load manager reports them: lightest of them first.

Source of the rule: `TopKBundles` of Pulsar 4.2.4. Left out are bundles without traffic, those of Pulsar itself, of excluded namespaces
and, unless the settings say otherwise, of namespaces with isolation or anti-affinity policies. Weight is compared in the coarse steps of
`averages.order`; who comes first among equals depends in Java on hash order and on how its selection swaps entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from strategies.averages.order import lightest_first, newest_order, ranks
from strategies.bundles.bundle_loads import THROUGHPUT_IN, THROUGHPUT_OUT, Ints
from strategies.bundles.system_bundles import has_java_namespace, is_system_bundle
from strategies.filters.anti_affinity import group_of
from strategies.filters.contract import namespace_of
from strategies.filters.isolation import governing
from strategies.filters.policies import PoliciesView
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.model import BundleStats
from strategies.settings import Mode, Setting

_SYSTEM_NAMESPACE = re.compile(r"(?:pulsar|sla-monitor)/[^:]+:\d+|pulsar/system", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopSettings:
    """How many bundles a report names, and which are left out of it."""

    most: Annotated[
        int,
        Setting("Bundles a broker offers for moving", "", "loadBalancerMaxNumberOfBundlesInBundleLoadReport", ge=0, le=100_000),
    ] = 10
    with_policies: Annotated[
        bool,
        Setting("Offer bundles with isolation or anti-affinity policies too", pulsar="loadBalancerSheddingBundlesWithPoliciesEnabled"),
    ] = False
    excluded_namespaces: Annotated[
        str, Setting("Namespaces whose bundles are never offered, separated by commas", pulsar="loadBalancerSheddingExcludedNamespaces")
    ] = ""


@dataclass(frozen=True, slots=True)
class TopFault:
    """Java's exception where it answers nothing."""

    java: str


def top_bundles(
    stats: BundleStats, policies: PoliciesView, settings: TopSettings, mode: Mode, cache_bytes: Ints | None = None
) -> tuple[int, ...] | TopFault:
    """Rows of the heaviest bundles, at most `settings.most`, the lightest of them first.

    `cache_bytes`: int64[n], the last thing to be compared; zeros where nobody knows. Only parity mode answers with a fault.
    """
    cache = np.zeros(len(stats.names), dtype=np.int64) if cache_bytes is None else cache_bytes
    keys = newest_order(stats.traffic, stats.topics + stats.sessions, cache)
    busy = _busy(stats, mode)
    may_be_offered = _Offer(policies, settings, mode)
    if mode == "fixed":
        return _heaviest(stats.names, keys, np.flatnonzero(busy), may_be_offered, settings.most)
    order = concurrent_hash_map_order(stats.names)
    if not settings.with_policies and any(busy[row] and not has_java_namespace(name) for row, name in enumerate(stats.names)):
        return TopFault("java.lang.IllegalArgumentException")
    rows = [row for row in order.tolist() if busy[row] and may_be_offered(stats.names[row])]
    return _selected_as_java(rows, ranks(keys).tolist(), min(settings.most, len(rows)))


def has_policies(namespace: str, policies: PoliciesView) -> bool:
    """Whether isolation or anti-affinity has a say in where the namespace lives."""
    return bool(group_of(policies.groups, namespace)) or governing(policies, namespace) is not None


class _Offer:
    """Whether a bundle may be in the report; every namespace is judged once."""

    def __init__(self, policies: PoliciesView, settings: TopSettings, mode: Mode) -> None:
        self._policies, self._settings, self._mode = policies, settings, mode
        self._excluded = frozenset(name.strip() for name in settings.excluded_namespaces.split(","))
        self._judged: dict[str, bool] = {}

    def __call__(self, bundle: str) -> bool:
        # What Java cannot parse it takes as a whole.
        namespace = namespace_of(bundle) if self._mode == "fixed" or has_java_namespace(bundle) else bundle
        if namespace not in self._judged:
            self._judged[namespace] = self._judge(bundle, namespace)
        return self._judged[namespace]

    def _judge(self, bundle: str, namespace: str) -> bool:
        if namespace in self._excluded:
            return False
        own = is_system_bundle(bundle, "fixed") if self._mode == "fixed" else _SYSTEM_NAMESPACE.fullmatch(namespace) is not None
        return not own and (self._settings.with_policies or not has_policies(namespace, self._policies))


def _busy(stats: BundleStats, mode: Mode) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Bundles with traffic; Java takes figures that are no numbers for traffic."""
    with np.errstate(all="ignore"):
        throughput = stats.traffic[:, THROUGHPUT_IN] + stats.traffic[:, THROUGHPUT_OUT]
    return throughput != 0 if mode == "parity" else np.isfinite(stats.traffic).all(axis=1) & (throughput > 0)


def _heaviest(names: Sequence[str], keys: Ints, busy: Ints, may_be_offered: Callable[[str], bool], most: int) -> tuple[int, ...]:
    """Fixed mode: among equals the name decides, and nobody looks at more bundles than it takes."""
    found: list[int] = []
    for row in busy[lightest_first(keys[busy], [names[row] for row in busy.tolist()])][::-1].tolist():
        if len(found) >= most:
            break
        if may_be_offered(names[row]):
            found.append(row)
    return tuple(reversed(found))


def _selected_as_java(rows: list[int], weight: Sequence[int], most: int) -> tuple[int, ...] | TopFault:
    """The first `most` after a quick-select with three zones around its last element; the part above the zone of the pivot is sorted."""
    if not rows:
        return ()
    start, end, target = 0, len(rows) - 1, most - 1
    while start < end:
        above, below = _parted(rows, weight, start, end)
        if above <= target < below:
            end = above
            break
        if target < above:
            end = above - 1
        else:
            start = below
    if end < 0:
        return TopFault("java.lang.IllegalArgumentException")
    rows[:end] = sorted(rows[:end], key=lambda row: -weight[row])
    return tuple(reversed(rows[: max(most, 0)]))


def _parted(rows: list[int], weight: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """Swaps rows[start..end] into heavier than, as heavy as and lighter than the last; answers where the second and third zone begin."""
    pivot, low, middle, high = weight[rows[end]], start, start, end
    while middle <= high:
        if pivot < weight[rows[middle]]:
            rows[low], rows[middle] = rows[middle], rows[low]
            low, middle = low + 1, middle + 1
        elif pivot > weight[rows[middle]]:
            rows[middle], rows[high] = rows[high], rows[middle]
            high -= 1
        else:
            middle += 1
    return low, middle
