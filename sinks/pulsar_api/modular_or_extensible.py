"""Which load manager a cluster runs, by a broker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sinks.pulsar_api.admin import PulsarAdmin

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
