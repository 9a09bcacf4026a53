"""Real brokers of both load managers, two of which do not know the speed of their network: all are
compared by the rest, and doctor says what to set.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import check_cluster
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.settings.merge_sources import load
from sinks.collector.collector import encode_report, encode_sweep
from sinks.collector.open_cluster import opened, run_until_complete
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.wire.record_decoding import Position, decode, decode_round
from strategies.cluster.model import Figures, LoadReport, Round
from strategies.figures.usage import percent
from strategies.fold.engine import EngineSettings
from strategies.round.round_input_and_digest import CapacitySettings
from tools.servers.pulsar_cluster import Manager
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes

pytestmark = pytest.mark.servers
#: What Pulsar makes of a card whose speed reads as −1 Mbit/s, as in many containers.
UNKNOWN = {"loadBalancerOverrideBrokerNicSpeedGbps": "-0.001"}
#: Within this, brokers of the extensible load manager publish their load.
PATIENCE_S = 90.0


@pytest.fixture(params=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest, jdk: None, tmp_path: Path) -> Iterator[PulsarProcesses]:
    """Three brokers, the last two of which do not know their network."""
    manager: Manager = request.param
    (tmp_path / "pulsar").mkdir()
    own: list[dict[str, str]] = [{}, UNKNOWN, UNKNOWN]
    with pulsar_processes(tmp_path / "pulsar", manager, brokers=3, own=own) as running:
        yield running


def a_pass(settings: PulsarSettings) -> list[bytes]:
    """What a collector publishes once all brokers have figures."""
    with opened(settings, CollectorSettings(), Event().wait) as source:
        done = run_until_complete(source, PATIENCE_S, Event().wait)
        facts = source.leader.run()
    assert done.missing == {}
    reports = [encode_report(settings.cluster, report) for report in done.reports]
    return [*reports, encode_sweep(settings.cluster, done, facts)]


def figures_of(lines: Sequence[bytes]) -> dict[str, Figures]:
    records = [decode(line, b"") for line in lines]
    reports = [one for one in records if isinstance(one, LoadReport)]
    return {one.broker: one.figures for one in reports if one.figures is not None}


def round_of(lines: Sequence[bytes], settings: EngineSettings) -> Round:
    loop = PlainLoop(settings)
    rows = [row for at, line in enumerate(lines) for row in loop.feed(Position("a", 0, at), line)]
    (done,) = [decode_round(row.value) for row in rows if row.kind == "rounds"]
    return done


def measured(pulsar: PulsarSettings) -> Finding:
    found = {one.check: one for one in check_cluster(load(), pulsar, False, PATIENCE_S)}
    return found["measured"]


def test_brokers_that_do_not_know_their_network_are_compared_by_the_rest(
    cluster: PulsarProcesses, tmp_path: Path
) -> None:
    pulsar = cluster.cluster.settings(tmp_path)
    known, *blind = cluster.cluster.brokers
    lines = a_pass(pulsar)
    figures = figures_of(lines)
    assert figures[known].bandwidth_in.limit > 0
    assert {figures[name].bandwidth_in.limit < 0 for name in blind} == {True}

    done = round_of(lines, EngineSettings())
    (skip,) = [one for one in done.skips if one.code == "resource-not-measured"]
    assert skip.names == tuple(sorted(blind))
    assert skip.evidence["resources"] == "bandwidth_in, bandwidth_out"
    assert done.usage == {name: percent(one.cpu) / 100 for name, one in figures.items()}

    told = EngineSettings(capacities=CapacitySettings(nic_gbps="*=0.1"))
    assert "resource-not-measured" not in {one.code for one in round_of(lines, told).skips}
    finding = measured(pulsar)
    assert finding.status == "warn"
    assert "loadBalancerOverrideBrokerNicSpeedGbps" in finding.remedy
