"""Recognises the bundles that belong to Pulsar itself and must not move.

Every broker owns a heartbeat namespace (`pulsar/host:port`, formerly `pulsar/cluster/host:port`)
and an SLA-monitor namespace (`sla-monitor/host:port`), whose topics mean nothing on another broker.
Source of the parity rule: `LoadData.getBundleDataForLoadShedding` of Pulsar 4.2.4.
"""

from __future__ import annotations

import re

_TENANTS = ("pulsar/", "sla-monitor/")
_LEGAL_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)
_AS_IN_4_2_4 = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^:]+:\d+", re.ASCII)
_OWN = re.compile(r"(?:pulsar|sla-monitor)/(?:[^/]+/)?[^/]+:\d+|pulsar/system", re.ASCII)


def has_java_namespace(bundle: str) -> bool:
    """Whether Pulsar 4.2.4 can parse the namespace of a bundle; it refuses names of three parts,
    which existed up to 2.x.
    """
    return _LEGAL_NAMESPACE.fullmatch(bundle.rpartition("/")[0]) is not None


def is_system_bundle(bundle: str) -> bool:
    """Whether a bundle belongs to Pulsar itself and must never move."""
    return bundle.startswith(_TENANTS) and _OWN.fullmatch(bundle.rpartition("/")[0]) is not None


def is_java_system_bundle(bundle: str) -> bool:
    """Whether Pulsar 4.2.4 recognises a bundle as its own; it misses names of three parts."""
    if not bundle.startswith(_TENANTS):
        return False
    # Java fails to parse a namespace of three parts, then matches the whole bundle name, which
    # never ends in a port.
    subject = bundle.rpartition("/")[0] if has_java_namespace(bundle) else bundle
    return _AS_IN_4_2_4.fullmatch(subject) is not None
