"""Reads a broker's runtime configuration: the load manager and the name of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import SettingsError

LoadManager = Literal["modular", "extensible"]
#: Begin of the name of a load manager's class.
_MANAGERS: Mapping[str, LoadManager] = {"Extensible": "extensible", "Modular": "modular"}


def configured_manager(
    admin: PulsarAdmin, broker: str | None = None
) -> tuple[LoadManager | None, str]:
    """The load manager, and the name of its class without packages; None for one that is not
    supported. `broker`: which one is asked, None = any. Raises AdminError.
    """
    name = admin.configuration(broker).get("loadManagerClassName", "").rpartition(".")[2]
    kinds = (kind for begin, kind in _MANAGERS.items() if name.startswith(begin))
    return next(kinds, None), name


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
