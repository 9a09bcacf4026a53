"""What brokers of Pulsar 5.0 say, as recorded from real ones (5.0.0-M1): read as what 4.2 says."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sinks.collector.broker_poll import Kind, Report
from sinks.collector.collector import Collector, encode_report
from sinks.collector.extensible_poll import one_line
from sinks.collector.open_cluster import opened
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import open_publisher
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Policies
from strategies.cluster.packed_records import pack_record
from strategies.filters.policies import read_policies
from tests.control_topic import Control, storing
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_of

DATA = Path(__file__).parents[1] / "data"
BROKER = "127.0.45.1:16877"


def recorded(kind: str) -> dict[str, Any]:
    text = (DATA / f"{kind}-5.0.0-M1.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def read(kind: Kind, body: Mapping[str, Any]) -> LoadReport:
    """From the broker's bytes through the collector's record to the job's."""
    report = Report(BROKER, 1_000, one_line(json.dumps(body).encode()), kind)
    found = decode(encode_report("c", report), b"")
    assert isinstance(found, LoadReport)
    return found


def test_a_modular_report_of_5_0_has_the_broker_id_and_says_the_same_without() -> None:
    body = recorded("load-report")
    assert (body["brokerId"], body["brokerVersionString"]) == (BROKER, "5.0.0-M1")
    old = json.loads((DATA / "load-report-4.2.4.json").read_text("utf-8"))
    assert {*body} == {*old, "brokerId"}
    without = {key: value for key, value in body.items() if key != "brokerId"}
    found = read("load-report", body)
    assert found.figures is not None
    assert found.figures.bundle_count == 3
    assert found.bundles is not None
    assert found.bundles.names == tuple(body["lastStats"])
    assert found.bundles.topics.tolist() == [4, 7, 4]
    assert pack_record(read("load-report", without)) == pack_record(found)


def test_extensible_brokers_of_5_0_publish_as_those_of_4_2() -> None:
    load = recorded("broker-load-data")
    found = read("broker-load-data", load)
    assert found.figures is not None
    assert found.figures.bundle_count == load["bundleCount"] == 6
    assert found.figures.traffic.msg_rate_in == load["msgRateIn"] > 0
    top = recorded("top-bundles-load-data")
    bundles = read("top-bundles-load-data", top).bundles
    assert bundles is not None
    assert list(bundles.names) == [one["bundleName"] for one in top["topBundlesLoadData"]]
    assert bundles.topics.tolist() == [one["stats"]["topics"] for one in top["topBundlesLoadData"]]


@pytest.mark.parametrize("release", ["5.0.0-M1", "5.0.0", "5.0.1"])
def test_the_collector_passes_reports_and_releases_of_5_0_on(release: str, tmp_path: Path) -> None:
    report = recorded("load-report") | {"brokerVersionString": release}
    control = Control(tmp_path)
    with FakePulsar(Cluster(report=report, version=release)) as pulsar:
        settings = PulsarSettings("c", pulsar.admin_urls, backoff_ms=0)
        collected(settings, control)
    lines = control.read("telemetry")
    assert json.loads(lines[0])["report"] == report, "verbatim, with the new field"
    (policies,) = [
        one for one in (decode(line, b"") for line in lines) if isinstance(one, Policies)
    ]
    facts = read_policies(policies.snapshot).brokers
    assert {one.version for one in facts.values()} == {release}


def collected(settings: PulsarSettings, control: Control) -> None:
    """One pass, as the command makes it."""
    with (
        opened(settings, CollectorSettings(), Event().wait) as source,
        closing(open_publisher(topic_of(control.uri("telemetry")))) as publisher,
    ):
        assert Collector(source, storing(publisher)).step().done
