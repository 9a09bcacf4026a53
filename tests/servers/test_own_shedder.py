"""Somebody switches Pulsar's own shedder on beside an executor: it is said, and that it is off
again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.own_shedder_warning import OwnShedder, own_shedders
from pulsar_rebalancer.cli.service_log import Line
from sinks.collector.settings import CollectorSettings
from tests.control_topic import Control
from tests.servers.pulsar_commands import execute
from tests.servers.test_pulsar import BOTH
from tools.servers.pulsar_cluster import PulsarCluster
from tools.waiting import eventually

pytestmark = pytest.mark.servers
IS_ON = "warning: Pulsar's own shedder is on at the leader"
_MINUTE_S = 60.0


@BOTH
def test_it_is_said_when_it_is_switched_on_and_off(cluster: PulsarCluster, tmp_path: Path) -> None:
    settings, control = cluster.settings(tmp_path), Control(tmp_path)
    assert "own shedder" not in execute(settings, control).err
    with own_shedders([settings], CollectorSettings(), "it moves bundles") as (own,):
        watch = Minutes(own)
        assert watch.news() == []
        with switched_on(cluster):
            eventually(lambda: IS_ON in execute(settings, control).err, 60)
            (line,) = watch.news()
            assert (line.event, line.fields["shedding"]) == ("own-shedder", True)
            assert line.fields["leader"] in cluster.brokers
            assert watch.news() == [], "a minute later"
        eventually(lambda: "own shedder" not in execute(settings, control).err, 60)
        (line,) = watch.news()
        assert line.fields["shedding"] is False


class Minutes:
    """A shedder that is looked at once a minute."""

    def __init__(self, own: OwnShedder) -> None:
        self._own, self._now = own, 0.0
        own.clock = lambda: self._now

    def news(self) -> list[Line]:
        self._now += _MINUTE_S
        return list(self._own.news())


@contextmanager
def switched_on(cluster: PulsarCluster) -> Iterator[None]:
    """The built-in shedder, by the dynamic setting; the broker.conf of all tests has it off."""
    path = "brokers/configuration/loadBalancerSheddingEnabled"
    cluster.post(f"{path}/true", None)
    try:
        yield
    finally:
        cluster.post(f"{path}/false", None)
