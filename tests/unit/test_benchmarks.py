"""The benchmarks run: the smallest size, without a look at the times."""

import json

import pytest

from benchmarks.fleet import Fleet
from benchmarks.rounds import main
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Sweep


@pytest.mark.heavy
def test_reports_have_the_size_of_real_ones_and_decode() -> None:
    fleet = Fleet(brokers=10)
    values = list(fleet.reports(0))
    assert all(28_000 < len(value) < 34_000 for value in values)
    reports = [decode(value, b"") for value in values]
    tables = [one.bundles for one in reports if isinstance(one, LoadReport)]
    assert [len(one.names) for one in tables if one is not None] == [100] * len(values)
    assert isinstance(decode(fleet.sweep(0), b""), Sweep)


@pytest.mark.heavy
def test_the_plain_loop_is_measured_for_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--brokers", "6", "--bundles", "20", "--passes", "1", "--no-spark", "--json"])
    costs = json.loads(capsys.readouterr().out)
    measured = [(cost["brokers"], cost["strategy"]) for cost in costs["plain"]]
    assert measured == [(6, strategy) for strategy in ("threshold", "avg", "steady")]
    assert all(cost["commands"] > 0 for cost in costs["plain"])
    assert costs["batches"] == []
