"""The top list of a broker as its own report would hold it: its heaviest bundles, in the order of
the extensible load manager's reports, the lightest of them first.

Source of the rule: `TopKBundles` of Pulsar 4.2.4. It leaves out bundles without traffic, of Pulsar
itself, of excluded namespaces and, unless the settings include them, of namespaces with isolation
or anti-affinity policies. Weight is compared in the coarse steps of `newest_order`; in Java the
order of equal bundles depends on hash order and on how the selection swaps entries.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np

from strategies.bundles import (
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    Floats,
    Ints,
    has_java_namespace,
    is_system_bundle,
    lightest_first,
    namespace_of,
    newest_order,
    ranks,
)
from strategies.cluster.model import BrokerLoad, BundleStats, ClusterView
from strategies.filters.anti_affinity import group_of
from strategies.filters.isolation import governing
from strategies.filters.policies import PoliciesView
from strategies.java.hash_order import concurrent_hash_map_order
from strategies.settings import Setting
from strategies.shedding.transfer.exchange_loop import OfferedBundle, TopLists
from strategies.shedding.transfer.settings import TransferSettings

_SYSTEM_NAMESPACE = re.compile(r"(?:pulsar|sla-monitor)/[^:]+:\d+|pulsar/system", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopSettings:
    """Number of bundles in a report, and which bundles it leaves out."""

    most: Annotated[
        int,
        Setting(
            "Bundles a broker offers for moving",
            "",
            "loadBalancerMaxNumberOfBundlesInBundleLoadReport",
            ge=0,
            le=100_000,
        ),
    ] = 10
    with_policies: Annotated[
        bool,
        Setting(
            "Offer bundles with isolation or anti-affinity policies too",
            pulsar="loadBalancerSheddingBundlesWithPoliciesEnabled",
        ),
    ] = False
    excluded_namespaces: Annotated[
        str,
        Setting(
            "Namespaces whose bundles are never offered, separated by commas",
            pulsar="loadBalancerSheddingExcludedNamespaces",
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class TopFault:
    """Java's exception in place of a result."""

    java: str


def top_bundles(
    stats: BundleStats, policies: PoliciesView, settings: TopSettings
) -> tuple[int, ...]:
    """Rows of the heaviest bundles, at most `settings.most`, the lightest of them first; equal ones
    by name.
    """
    busy = np.isfinite(stats.traffic).all(axis=1) & (_throughput(stats) > 0)
    may_be_offered = _offer(policies, settings, lambda name: is_system_bundle(f"{name}/"))
    rows = np.flatnonzero(busy)
    keys, names = _keys(stats, None)[rows], [stats.names[row] for row in rows.tolist()]
    found = list[int]()  # only as many bundles as necessary are checked
    for row in rows[lightest_first(keys, names)][::-1].tolist():
        if len(found) >= settings.most:
            break
        if may_be_offered(namespace_of(stats.names[row])):
            found.append(row)
    return tuple(reversed(found))


def java_top_bundles(
    stats: BundleStats,
    policies: PoliciesView,
    settings: TopSettings,
    cache_bytes: Ints | None = None,
) -> tuple[int, ...] | TopFault:
    """The same as in Java: NaN counts as traffic, and equal bundles follow the order of its map; or
    its exception. `cache_bytes`: int64[n], compared last; zeros if unknown.
    """
    busy = _throughput(stats) != 0
    may_be_offered = _offer(
        policies, settings, lambda name: _SYSTEM_NAMESPACE.fullmatch(name) is not None
    )
    order = concurrent_hash_map_order(stats.names)
    if not settings.with_policies and any(
        busy[row] and not has_java_namespace(name) for row, name in enumerate(stats.names)
    ):
        return TopFault("java.lang.IllegalArgumentException")
    rows = [
        row
        for row in order.tolist()
        if busy[row] and may_be_offered(_java_namespace(stats.names[row]))
    ]
    return _selected_as_java(
        rows, ranks(_keys(stats, cache_bytes)).tolist(), min(settings.most, len(rows))
    )


def has_policies(namespace: str, policies: PoliciesView) -> bool:
    """Whether an isolation policy or an anti-affinity group applies to the namespace."""
    return bool(group_of(policies.groups, namespace)) or governing(policies, namespace) is not None


#: Returns the rows of a broker's top list, or Java's exception.
Top = Callable[[BundleStats, PoliciesView, TopSettings], tuple[int, ...] | TopFault]


def top_lists(
    brokers: Sequence[BrokerLoad], view: ClusterView, settings: TransferSettings, top: Top
) -> TopLists:
    """The top lists of these brokers, each built on first use."""
    listed = {broker.broker: broker for broker in brokers}
    report = TopSettings(most=settings.top_bundles, with_policies=settings.with_policies)

    @cache
    def top_list(broker: str) -> Sequence[OfferedBundle] | None:
        if broker not in listed:
            return None
        loads = listed[broker].bundles
        offered = np.array([not view.is_excluded(name) for name in loads.names], dtype=bool)
        traffic = np.where(offered[:, None], loads.current, 0.0)
        stats = BundleStats(loads.names, traffic, loads.topics, loads.sessions)
        rows = top(stats, view.policies, report)
        if isinstance(rows, TopFault):
            return ()
        with np.errstate(over="ignore", invalid="ignore"):
            throughput = (loads.current[:, 2] + loads.current[:, 3]).tolist()
        return tuple(OfferedBundle(loads.names[row], throughput[row]) for row in rows)

    return top_list


def _offer(
    policies: PoliciesView, settings: TopSettings, is_own: Callable[[str], bool]
) -> Callable[[str], bool]:
    """Returns a function: whether bundles of a namespace may be in the report; each is checked
    once.
    """
    excluded = frozenset(name.strip() for name in settings.excluded_namespaces.split(","))

    @cache
    def may_be_offered(namespace: str) -> bool:
        if namespace in excluded or is_own(namespace):
            return False
        return settings.with_policies or not has_policies(namespace, policies)

    return may_be_offered


def _java_namespace(bundle: str) -> str:
    """Java uses a name that it cannot parse as a whole."""
    return namespace_of(bundle) if has_java_namespace(bundle) else bundle


def _keys(stats: BundleStats, cache_bytes: Ints | None) -> Ints:
    cache = np.zeros(len(stats.names), dtype=np.int64) if cache_bytes is None else cache_bytes
    return newest_order(stats.traffic, stats.topics + stats.sessions, cache)


def _throughput(stats: BundleStats) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(stats.traffic[:, THROUGHPUT_IN] + stats.traffic[:, THROUGHPUT_OUT])


def _selected_as_java(
    rows: list[int], weight: Sequence[int], most: int
) -> tuple[int, ...] | TopFault:
    """The first `most` after a quick-select with three zones around its last element; the part
    above the zone of the pivot is sorted.
    """
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
    """Partitions rows[start..end] into heavier than, as heavy as and lighter than the last; returns
    the starts of parts two and three.
    """
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
