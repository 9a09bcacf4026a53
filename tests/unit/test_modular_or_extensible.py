"""Which load manager a cluster runs, by the class in a broker's configuration: one answer for the
collector and the executor.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from sinks.pulsar_api.access import PulsarSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LoadManager, configured_manager
from tests.pulsar_fake.server import FakePulsar

_PACKAGE = "org.apache.pulsar.broker.loadbalance"


@pytest.mark.parametrize(
    ("class_name", "manager"),
    [
        (f"{_PACKAGE}.impl.ModularLoadManagerImpl", "modular"),
        (f"{_PACKAGE}.impl.ModularLoadManagerWrapper", "modular"),
        (f"{_PACKAGE}.extensions.ExtensibleLoadManagerImpl", "extensible"),
        (f"{_PACKAGE}.impl.SimpleLoadManagerImpl", None),
        # The name of a package says nothing.
        ("org.example.ModularLoadManager.MyManager", None),
        ("", None),
    ],
)
def test_the_class_names_the_manager(
    pulsar: FakePulsar, class_name: str, manager: LoadManager | None
) -> None:
    pulsar.cluster.configuration["loadManagerClassName"] = class_name
    with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
        assert configured_manager(admin) == (manager, class_name.rpartition(".")[2])
