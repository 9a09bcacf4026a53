"""What brokers of Pulsar 5.0 say, as recorded from real ones (5.0.0-M1): read as what 4.2 says."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sinks.collector.broker_poll import Kind, Report
from sinks.collector.collector import encode_report
from sinks.collector.extensible_poll import one_line
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport
from strategies.cluster.packed_records import pack_record

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
