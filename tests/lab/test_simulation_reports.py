"""What a modelled broker sends looks like what a real one sends, and means the same to the engine
with and without JSON.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.simulation.closed_loop import outcome_reports
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.wire.codec import decode
from sinks.wire.origin import Position, WireLimits, pack_origin
from strategies.cluster.model import LoadReport, Outcome, OutcomeReport, Sweep, TelemetryRecord

REAL_REPORT = Path(__file__).parents[1] / "data" / "load-report-4.2.4.json"


def passes(count: int = 1) -> list[TelemetryRecord]:
    cluster = skewed_cluster(bundles=32)
    return [seen for _ in range(count) for seen in cluster.collect()]


def to_json(seen: TelemetryRecord) -> bytes:
    """The first record of its broker."""
    return TelemetryWriter(skewed_cluster(bundles=32)).json(seen)


def over_the_wire(seen: TelemetryRecord) -> Any:
    value = to_json(seen)
    return decode(value, pack_origin(Position("t", 0, 0), value, None), WireLimits())


def shape(value: Any) -> Any:
    """Field names in order, and the kind of each value; what differs from broker to broker is left
    out.
    """
    if not isinstance(value, dict):
        return (
            "number"
            if isinstance(value, int | float) and not isinstance(value, bool)
            else type(value).__name__
        )
    return [
        (name, shape(next(iter(part.values()), None)) if name == "lastStats" else shape(part))
        for name, part in value.items()
    ]


def test_a_report_has_the_fields_of_a_real_one_in_the_same_order() -> None:
    ours = json.loads(to_json(passes()[0]))["report"]
    assert shape(ours) == shape(json.loads(REAL_REPORT.read_text()))


def test_totals_agree_with_the_bundles_they_are_the_totals_of() -> None:
    report = json.loads(to_json(passes()[0]))["report"]
    stats = report["lastStats"]
    assert report["bundles"] == list(stats)
    assert report["numBundles"] == len(stats)
    for total in ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut"):
        assert abs(report[total] - sum(one[total] for one in stats.values())) < 1e-3
    assert report["numTopics"] == sum(one["topics"] for one in stats.values())


def test_the_engine_sees_the_same_with_and_without_json() -> None:
    records = list(passes(2))
    assert {type(record) for record in records} >= {LoadReport, Sweep}
    for seen in records:
        direct, wired = seen, over_the_wire(seen)
        if isinstance(direct, LoadReport):
            same_report(direct, wired)
        else:
            assert replace(wired, origin=b"") == direct


def same_report(direct: LoadReport, wired: LoadReport) -> None:
    assert (wired.cluster, wired.broker, wired.ts, wired.figures) == (
        direct.cluster,
        direct.broker,
        direct.ts,
        direct.figures,
    )
    assert wired.bundles is not None
    assert direct.bundles is not None
    assert wired.bundles.names == direct.bundles.names
    for column in ("traffic", "topics", "sessions"):
        assert np.array_equal(getattr(wired.bundles, column), getattr(direct.bundles, column))


def test_a_digest_changes_when_a_sample_does() -> None:
    first, second = (
        one for one in passes(2) if isinstance(one, LoadReport) and one.broker == "broker-1:8080"
    )
    assert first.digest != second.digest


def test_a_digest_stays_while_a_sample_does() -> None:
    (first, *_), (again, *_) = passes(), passes()
    assert isinstance(first, LoadReport)
    assert isinstance(again, LoadReport)
    assert first.digest == again.digest


def test_an_outcome_is_fed_back_as_it_is() -> None:
    outcome = Outcome(
        "id",
        "demo",
        "t/n/0x00000000_0x80000000",
        "applied",
        None,
        "a:1",
        "b:1",
        150,
        1_767_225_601_150,
    )
    (seen,) = outcome_reports([outcome])
    wired = over_the_wire(seen)
    assert isinstance(wired, OutcomeReport)
    assert wired.outcome == outcome


def test_a_silent_broker_is_named_as_missing() -> None:
    cluster = skewed_cluster(bundles=32)
    *reports, sweep = cluster.collect(silent=["broker-3:8080"])
    assert isinstance(sweep, Sweep)
    assert len(reports) == 7
    assert "broker-3:8080" not in sweep.brokers
    assert dict(sweep.missing) == {"broker-3:8080": "no answer"}
