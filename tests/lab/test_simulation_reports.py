"""What a modelled broker sends looks like what a real one sends, and means the same to the engine
with and without JSON.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import outcome_reports
from pulsar_rebalancer.lab.simulation.report_updates import writes_again
from pulsar_rebalancer.lab.simulation.telemetry_json import TelemetryWriter
from sinks.wire.record_decoding import Position, WireLimits, decode, pack_origin
from strategies.cluster.model import (
    Figures,
    LoadReport,
    Outcome,
    OutcomeReport,
    Resource,
    Sweep,
    TelemetryRecord,
    Traffic,
)

REAL_REPORT = Path(__file__).parents[1] / "data" / "load-report-4.2.4.json"


def passes(count: int = 1) -> list[TelemetryRecord]:
    cluster = skewed_cluster(bundles=32)
    return [seen for _ in range(count) for seen in cluster.collect()]


def to_json(seen: TelemetryRecord) -> bytes:
    """The first record of its broker."""
    return TelemetryWriter().json(seen)


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


def test_a_digest_changes_when_a_sample_does_and_stays_while_it_does() -> None:
    first, later, again = (
        one
        for records in (passes(2), passes())
        for one in records
        if isinstance(one, LoadReport) and one.broker == "broker-1:8080"
    )
    assert first.digest == again.digest != later.digest


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


def told(rate: float = 0.0, *, mib: float = 0.0, bundles: int = 0, usage: float = 0.0) -> Figures:
    return Figures(
        cpu=Resource(100 * usage, 100.0),
        traffic=Traffic(msg_rate_in=rate, msg_throughput_out=mib * 1048576),
        bundle_count=bundles,
    )


@pytest.mark.parametrize(
    ("before", "now", "age_ms", "written"),
    [
        (told(1000), told(1101), 0, True),
        (told(1000), told(1100), 0, False),
        (told(1000), told(899), 0, True),
        (told(0), told(1), 0, True),
        (told(usage=0.5), told(usage=0.599), 0, False),
        (told(usage=0.5), told(usage=0.601), 0, True),
        (told(mib=10), told(mib=12), 0, True),
        (told(bundles=9), told(bundles=10), 0, True),
        (told(bundles=10), told(bundles=11), 0, False),
        (told(), told(), 900_000, False),
        (told(), told(), 900_001, True),
    ],
)
def test_a_report_is_written_after_a_change_of_ten_percent_or_points_or_a_quarter_of_an_hour(
    before: Figures, now: Figures, age_ms: int, written: bool
) -> None:
    assert writes_again(before, now, age_ms) == written
