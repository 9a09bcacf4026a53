"""The known keys of a broker.conf are the fields of Pulsar's own `ServiceConfiguration`."""

import re
import subprocess
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.broker_conf.keys import KEYS, looks_like_ours
from pulsar_rebalancer.settings.broker_conf.service_configuration import KEYS_OF
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from tools.servers.jvm import Program
from tools.servers.pulsar_cluster import PULSAR, PULSAR_50

pytestmark = pytest.mark.servers


@pytest.mark.parametrize(
    ("release", "program"),
    [
        pytest.param("4.2", PULSAR, id="4.2"),
        pytest.param("5.0", PULSAR_50, id="5.0", marks=pytest.mark.slow),
    ],
)
def test_the_keys_of_a_release_are_those_of_its_class(
    jdk: None, release: PulsarRelease, program: Program
) -> None:
    fields = fields_of_the_class(program)

    assert len(fields) > 500
    assert fields == KEYS_OF[release]
    assert {name for name in fields if looks_like_ours(name)} - KEYS.keys() == set()


def fields_of_the_class(program: Program) -> set[str]:
    """Names of the fields of ServiceConfiguration, as the compiler's own tool lists them."""
    (jar,) = (file for file in program.jars if file.name.startswith("pulsar-broker-common-"))
    javap, name = (
        Path(PULSAR.java).with_name("javap"),
        "org.apache.pulsar.broker.ServiceConfiguration",
    )
    listed = subprocess.check_output([javap, "-private", "-classpath", jar, name], text=True)
    return set(re.findall(r"^  private (?!static )[^(\n]* (\w+);$", listed, re.MULTILINE))
