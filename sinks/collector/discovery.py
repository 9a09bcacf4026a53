"""Finds out what a cluster is from the address of one broker: name, load manager and brokers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from sinks.collector.load_source import load_manager_of
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.cluster_name import check_cluster_name
from sinks.pulsar_api.modular_or_extensible import LoadManager
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import Refused

#: Stands for the cluster's name in a call that does not need it.
_UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class DiscoveredCluster:
    """A cluster that answers; `pulsar`: its settings, with its name."""

    pulsar: PulsarSettings
    load_manager: LoadManager
    brokers: tuple[str, ...]


def discovered(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> DiscoveredCluster:
    """Asks the brokers in `pulsar.admin_urls`; a name in `pulsar.cluster` must be theirs. Raises
    SettingsError, AdminError.

    `wait`: sleeps; returns True if the program is to end.
    """
    named = pulsar if pulsar.cluster else replace(pulsar, cluster=_own_name(pulsar, wait))
    with closing(PulsarAdmin(named, wait)) as admin:
        check_cluster_name(named, named.admin_urls, admin.configuration())
        return DiscoveredCluster(named, load_manager_of(admin, named), admin.brokers())


def _own_name(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> str:
    """`clusterName` of a broker: the list of clusters also has those that it replicates to."""
    with closing(PulsarAdmin(replace(pulsar, cluster=_UNNAMED), wait)) as admin:
        name = admin.configuration().get("clusterName", "")
    if not name:
        raise Refused(
            "The broker's configuration names no cluster; set pulsar.cluster to the name that "
            "`pulsar-admin clusters list` prints."
        )
    return name
