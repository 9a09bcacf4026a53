"""Doctor looks at a cluster. What it finds there is in tests/golden/doctor_cluster.txt."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pulsar_rebalancer.doctor.cluster import check_clocks
from sinks.pulsar_api.settings import PulsarSettings
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.set_words import set_words
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import REPORT

#: No rival of ours: neither sheds nor splits.
QUIET = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "statsUpdateFrequencyInSecs": "60",
}


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT, configuration=dict(QUIET))) as running:
        yield running


def test_clocks_that_differ(pulsar: FakePulsar) -> None:
    asked = PulsarSettings("c", pulsar.admin_urls)
    assert check_clocks(pulsar.cluster.brokers, asked).status == "ok"
    found = check_clocks(pulsar.cluster.brokers, asked, lambda: time.time() + 60)
    assert found.status == "warn"
    assert "differs by" in found.text


@pytest.mark.heavy
def test_doctor_ends_with_1_when_the_cluster_has_a_rival(pulsar: FakePulsar) -> None:
    given = set_words({"pulsar.cluster": "c", "pulsar.admin_urls": pulsar.admin_urls})
    words = ["doctor", "--no-spark-start", "--json", *given]
    told = {finding["check"]: finding["status"] for finding in rebalancer(*words).json["findings"]}
    assert told["built-in shedding"] == "ok"
    pulsar.cluster.configuration["loadBalancerSheddingEnabled"] = "true"
    assert rebalancer(*words).code == 1
