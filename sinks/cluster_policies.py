"""The policies snapshot of a cluster, each part as Pulsar's admin API gives it (form: strategies/filters/policies.py).

Topic counts are not in it: a modular broker's load report has them for every bundle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from sinks.collecting import Report
from sinks.pulsar_admin import PulsarAdmin
from strategies.errors import NotFound


class _Facts(msgspec.Struct):
    brokerVersionString: str | None = None
    loadManagerClassName: str | None = None
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True


_FACTS = msgspec.json.Decoder(_Facts)


def collect_policies(admin: PulsarAdmin, reports: Iterable[Report], at_once: int) -> dict[str, Any]:
    """One snapshot; equal policies give equal snapshots. Raises AdminError when a part cannot be had: half a snapshot would unprotect."""
    return {
        "isolation": admin.isolation_policies(),
        "anti_affinity": dict(_groups(admin, at_once)),
        "failure_domains": admin.failure_domains(),
        "brokers": dict(_facts(reports)),
    }


def text_of(snapshot: Mapping[str, Any]) -> str:
    """The snapshot as it would be published, to see whether it changed. The order of isolation policies counts."""
    return json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))


def _groups(admin: PulsarAdmin, at_once: int) -> Iterator[tuple[str, str]]:
    namespaces = sorted(namespace for tenant in admin.tenants() for namespace in _namespaces(admin, tenant))
    with ThreadPoolExecutor(at_once, thread_name_prefix="policies") as pool:
        for namespace, group in zip(namespaces, pool.map(lambda name: _group(admin, name), namespaces), strict=True):
            if group:
                yield namespace, group


def _namespaces(admin: PulsarAdmin, tenant: str) -> tuple[str, ...]:
    try:
        return admin.namespaces(tenant)
    except NotFound:
        return ()  # deleted a moment ago


def _group(admin: PulsarAdmin, namespace: str) -> str | None:
    try:
        return admin.anti_affinity(namespace)
    except NotFound:
        return None


def _facts(reports: Iterable[Report]) -> Iterator[tuple[str, dict[str, Any]]]:
    for report in sorted(reports, key=lambda report: report.broker):
        try:
            facts = _FACTS.decode(report.body)
        except (ValueError, RecursionError):
            continue  # the job will say what is wrong with the report
        yield (
            report.broker,
            {
                "version": facts.brokerVersionString,
                "load_manager": facts.loadManagerClassName,
                "persistent": facts.persistentTopicsEnabled,
                "non_persistent": facts.nonPersistentTopicsEnabled,
            },
        )
