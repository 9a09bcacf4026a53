"""The `topk` suite: which bundles a broker of the extensible load manager reports, and in which
order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from rebalancer.conformance.averaging import StatsData, stats_columns
from rebalancer.conformance.broker_conf import settings_of
from rebalancer.conformance.vectors import Case, Played
from strategies.filters.policies import PoliciesView, isolation_policy
from strategies.model import BundleStats
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles

_EXCLUDED = "loadBalancerSheddingExcludedNamespaces"


class _TopRound(msgspec.Struct, frozen=True, rename="camel"):
    bundle_stats: dict[str, StatsData] = {}
    topk: int | None = None


class _ExcludedConf(msgspec.Struct, frozen=True):
    excluded: list[str] = msgspec.field(default_factory=list, name=_EXCLUDED)


class _TopCase(msgspec.Struct, frozen=True, rename="camel"):
    conf: _ExcludedConf = _ExcludedConf()
    isolation_policies: dict[str, Any] | None = None
    anti_affinity_groups: dict[str, str] | None = None


def top_bundles(case: Case) -> Played:
    """Asks for the report of every round. Raises SettingsError for a case of another form."""
    given = case.read(_TopCase)
    plain = {key: value for key, value in case.envelope.conf.items() if key != _EXCLUDED}
    settings = replace(
        settings_of(TopSettings, plain), excluded_namespaces=",".join(given.conf.excluded)
    )
    policies = PoliciesView(
        tuple(
            isolation_policy(name, tree) for name, tree in (given.isolation_policies or {}).items()
        ),
        given.anti_affinity_groups or {},
    )
    for round_, answer in case.answered(_TopRound):
        yield answer, _report(round_, policies, settings)


def _report(round_: _TopRound, policies: PoliciesView, settings: TopSettings) -> dict[str, Any]:
    rows = tuple(round_.bundle_stats.values())
    traffic, clients, cache = stats_columns(rows)
    topics = np.array([row.topics for row in rows], dtype=np.int64)
    stats = BundleStats(tuple(round_.bundle_stats), traffic, topics, clients - topics)
    if round_.topk is not None:
        settings = replace(settings, most=round_.topk)
    found = java_top_bundles(stats, policies, settings, cache)
    return (
        {"error": found.java}
        if isinstance(found, TopFault)
        else {"top": [stats.names[row] for row in found]}
    )
