"""Compares `pulsar.cluster` with the name that brokers give their cluster."""

from __future__ import annotations

from collections.abc import Mapping

from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import SettingsError


def check_cluster_name(
    settings: PulsarSettings, who: str, configuration: Mapping[str, str]
) -> None:
    """Raises SettingsError if a broker with this runtime configuration belongs to another cluster
    than `pulsar.cluster`. `who`: the broker, for the message.

    Pulsar answers most calls for a cluster that does not exist, so that a misspelt name would seem
    to be a cluster without failure domains and policies. A broker that names no cluster passes.
    """
    name = configuration.get("clusterName") or settings.cluster
    if name != settings.cluster:
        raise SettingsError(
            [
                f"pulsar.cluster: is {settings.cluster}, but {who} belongs to {name} (clusterName "
                f"in broker.conf); set pulsar.cluster, or the name of the table in [clusters], to "
                f"{name}, or correct pulsar.admin_urls"
            ]
        )
