"""Finds out what a cluster is from the address of one broker: name, load manager and brokers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from sinks.collector.load_source import load_manager_of
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.modular_or_extensible import LoadManager
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import NotFound, Refused

#: Stands for the cluster's name in a call that does not need it.
_UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class DiscoveredCluster:
    """A cluster that answers; `pulsar`: its settings, with its name."""

    pulsar: PulsarSettings
    load_manager: LoadManager
    brokers: tuple[str, ...]


def discovered(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> DiscoveredCluster:
    """Asks the brokers in `pulsar.admin_urls`; a name in `pulsar.cluster` is kept. Raises
    SettingsError, AdminError.

    `wait`: sleeps; returns True if the program is to end.
    """
    named = pulsar if pulsar.cluster else replace(pulsar, cluster=_own_name(pulsar, wait))
    with closing(PulsarAdmin(named, wait)) as admin:
        return DiscoveredCluster(named, load_manager_of(admin, named), admin.brokers())


def _own_name(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> str:
    """`clusterName` of a broker: the list of clusters also has those that it replicates to."""
    with closing(PulsarAdmin(replace(pulsar, cluster=_UNNAMED), wait)) as admin:
        try:
            name = admin.configuration().get("clusterName", "")
        except NotFound as error:
            raise NotFound(
                f"{pulsar.admin_urls} has no admin API of Pulsar; correct pulsar.admin_urls: name "
                "the web service of a broker (webServicePort in its broker.conf)."
            ) from error
    if not name:
        raise Refused(
            "The broker's configuration names no cluster; set pulsar.cluster to the name that "
            "`pulsar-admin clusters list` prints."
        )
    return name
