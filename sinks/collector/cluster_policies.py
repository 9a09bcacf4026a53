"""Snapshot of a cluster's policies, each part as Pulsar's admin API returns it (format:
strategies/filters/policies.py).

Contains no topic counts: a modular broker's load report has them for every bundle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec

from sinks.collector.broker_poll import Report
from sinks.collector.bundle_owners import names_of
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import CallFailed, NotFound


class _Facts(msgspec.Struct):
    brokerVersionString: str | None = None
    loadManagerClassName: str | None = None
    persistentTopicsEnabled: bool = True
    nonPersistentTopicsEnabled: bool = True


def collect_policies(
    admin: PulsarAdmin, brokers: Mapping[str, Any], at_once: int
) -> dict[str, Any]:
    """One snapshot; equal policies give equal snapshots. `brokers`: from `reported_facts` or
    `asked_facts`.

    Raises AdminError if a part cannot be read: an incomplete snapshot would lift protections.
    """
    return {
        "isolation": admin.isolation_policies(),
        "anti_affinity": dict(_groups(admin, at_once)),
        "failure_domains": admin.failure_domains(),
        "brokers": dict(brokers),
    }


def reported_facts(reports: Iterable[Report]) -> dict[str, Any]:
    """Facts of each broker from modular load reports: broker → facts."""
    found = {}
    for report in sorted(reports, key=lambda report: report.broker):
        # The job rejects a report that cannot be decoded, with a reason.
        with suppress(ValueError, RecursionError):
            found[report.broker] = _entry(msgspec.json.decode(report.body, type=_Facts))
    return found


def asked_facts(admin: PulsarAdmin, brokers: Sequence[str], at_once: int) -> dict[str, Any]:
    """The same facts, requested from each broker, for extensible ones; without brokers that do not
    answer. Raises Unauthorized.
    """
    with ThreadPoolExecutor(at_once, thread_name_prefix="facts") as pool:
        found = zip(brokers, pool.map(lambda broker: _ask(admin, broker), brokers), strict=True)
        return {broker: facts for broker, facts in found if facts is not None}


def text_of(snapshot: Mapping[str, Any]) -> str:
    """The snapshot as published, to detect changes. The order of isolation policies matters."""
    return json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"))


def _groups(admin: PulsarAdmin, at_once: int) -> Iterator[tuple[str, str]]:
    namespaces = sorted(
        namespace for tenant in admin.tenants() for namespace in names_of(admin.namespaces, tenant)
    )
    with ThreadPoolExecutor(at_once, thread_name_prefix="policies") as pool:
        for namespace, group in zip(
            namespaces, pool.map(lambda name: _group(admin, name), namespaces), strict=True
        ):
            if group:
                yield namespace, group


def _group(admin: PulsarAdmin, namespace: str) -> str | None:
    try:
        return admin.anti_affinity(namespace)
    except NotFound:
        # Pulsar also answers 404 where it could not read the policies of a namespace.
        if namespace in names_of(admin.namespaces, namespace.partition("/")[0]):
            raise
        return None


def _ask(admin: PulsarAdmin, broker: str) -> dict[str, Any] | None:
    try:
        given = admin.configuration(broker)
        version = admin.version(broker)
    except CallFailed:
        return None
    topics = (
        given.get(key) != "false" for key in ("enablePersistentTopics", "enableNonPersistentTopics")
    )
    return _entry(_Facts(version, given.get("loadManagerClassName"), *topics))


def _entry(facts: _Facts) -> dict[str, Any]:
    return {
        "version": facts.brokerVersionString,
        "load_manager": facts.loadManagerClassName,
        "persistent": facts.persistentTopicsEnabled,
        "non_persistent": facts.nonPersistentTopicsEnabled,
    }
