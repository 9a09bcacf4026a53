"""What a broker reports about itself and which load manager it runs: it may not have started the
configured one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError, Unauthorized

#: What `loadReportType` in a broker's load report says about the load manager that made it.
_REPORTS = {"LocalBrokerData": "ModularLoadManagerImpl", "LoadReport": "SimpleLoadManagerImpl"}


@dataclass(frozen=True, slots=True)
class Broker:
    """What one broker reports about itself, or in `why` the error. `runs`: the load manager that
    answers, empty if unknown.
    """

    name: str
    version: str
    configuration: Mapping[str, str]
    why: str = ""
    runs: str = ""

    @property
    def configured(self) -> str:
        """The class of load manager that the configuration names, without its package."""
        return self.class_of("loadManagerClassName")

    @property
    def manager(self) -> str:
        """The load manager that runs."""
        return self.runs or self.configured

    def class_of(self, key: str) -> str:
        """The class that a key names, without its package."""
        return self.configuration.get(key, "").rpartition(".")[2]


def running_manager(admin: PulsarAdmin, broker: str) -> str:
    """The load manager, known from the type of its load report: the extensible one has none. Empty
    if unknown. Raises Unauthorized.
    """
    try:
        report = json.loads(admin.load_report(broker))
    except Unauthorized:
        raise
    except AdminError as error:
        return "ExtensibleLoadManagerImpl" if "UnsupportedOperationException" in str(error) else ""
    except (ValueError, RecursionError):
        return ""
    return _REPORTS.get(str(report.get("loadReportType")), "") if isinstance(report, dict) else ""
