"""What is packed comes out again: records on their way to another process, a cluster's state on its
way to a checkpoint.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest

from strategies.clock import Clock
from strategies.errors import StateVersionError
from strategies.log_start import EarlyRecord
from strategies.model import (
    ClusterMemory,
    LoadReport,
    Note,
    OutcomeReport,
    Policies,
    TelemetryRecord,
    Tombstone,
)
from strategies.move_cost import MoveCost
from strategies.packing import pack_record, unpack_record
from strategies.state import (
    STATE_VERSION,
    ClusterState,
    Departed,
    Gained,
    InFlight,
    Order,
    Rehearsal,
    from_bytes,
    to_bytes,
)
from tests.unit.telemetry_builders import T0, outcome, report, sweep


def measured(record: OutcomeReport) -> OutcomeReport:
    """The same with what the move cost."""
    cost = MoveCost(16, 310, 12, 2, "modular")
    return replace(record, outcome=replace(record.outcome, cost=cost))


@pytest.mark.parametrize(
    "record",
    [
        sweep(1, "a:1", "b:1", missing={"ç:1": "timed out"}),
        replace(
            sweep(1, "a:1", missing={"b:1": "withdrew"}),
            answering=("b:1",),
            leader="a:1",
            shedding=False,
        ),
        outcome("id", "t/ns/0x0_0x1", 3, "applied", "b:1"),
        measured(outcome("id", "t/ns/0x0_0x1", 3, "applied", "b:1")),
        Tombstone("c", "a:1", T0),
        Policies("c", T0, '{"isolation":{}}'),
        Note("c", T0),
    ],
)
def test_records_survive_packing(record: TelemetryRecord) -> None:
    record = replace(record, origin=b"\x00where it stood")
    assert unpack_record(pack_record(record)) == record


def test_a_load_report_survives_packing_with_its_table() -> None:
    original = replace(
        report(
            "a:1", 5, 33.3, {"t/ü/0x00000000_0x10000000": 1.5, "t/n/0x10000000_0x20000000": 0.1}
        ),
        origin=b"o",
        started_ms=T0 - 5_000,
    )
    again = unpack_record(pack_record(original))
    assert isinstance(again, LoadReport)
    assert (again.figures, again.digest, again.origin) == (original.figures, original.digest, b"o")
    assert again.started_ms == T0 - 5_000
    assert again.bundles is not None
    assert original.bundles is not None
    assert again.bundles.names == original.bundles.names
    assert np.array_equal(again.bundles.traffic, original.bundles.traffic)


def test_a_brokers_own_averages_survive_packing() -> None:
    told = report("a:1", 5)
    assert told.figures is not None
    averaged = replace(
        told,
        figures=replace(told.figures, usage_average=0.1, throughput_average=2.5, updated_at_ms=T0),
    )
    again = unpack_record(pack_record(averaged))
    assert isinstance(again, LoadReport)
    assert again.figures == averaged.figures


def test_half_a_report_survives_packing() -> None:
    half = replace(report("a:1", 5), bundles=None)
    again = unpack_record(pack_record(half))
    assert isinstance(again, LoadReport)
    assert again.bundles is None
    assert again.figures == half.figures


def full_state() -> ClusterState:
    return ClusterState(
        clock=Clock(5, 6, 7),
        early=(EarlyRecord.of_packed(7, b"\xff\x00", True),),
        round=4,
        in_flight={"b": InFlight("id", "a:1", None, 1, 2, 0.25, True)},
        cooling={"b": 3},
        departed={"d": Departed((1.0, 0.1), 2)},
        gained={"g": Gained("a:1", 3)},
        missing={"x:1": "timed out"},
        memory=ClusterMemory(2, {"p": "a:1"}, {"scores": 32}),
        policies="{}",
        orders={"b": Order("id", 1, 2, 3.5), "s": Order("split", 1, 2, None)},
        rehearsed={
            "dry": Rehearsal(
                "r", Order("dry", 1, 2, 0.0), InFlight("dry", "a:1", "b:1", 1, 2, 0.25)
            ),
            "t": Rehearsal("t", Order("t", 1, 2, None), None),
        },
    )


def test_a_clusters_state_survives_its_bytes() -> None:
    assert from_bytes(to_bytes(full_state())) == full_state()
    assert from_bytes(to_bytes(ClusterState())) == ClusterState()


def test_a_state_of_a_version_that_did_not_compress_early_records_goes_on() -> None:
    record = sweep(5)
    early = EarlyRecord.of(record, far=True)
    state = json.loads(to_bytes(ClusterState(early=(early,))))
    state["early"] = [[record.ts, b64encode(pack_record(record)).decode(), True]]

    assert from_bytes(json.dumps(state).encode()) == ClusterState(early=(early,))
    assert early.record == record


def test_state_of_another_version_is_refused_with_a_next_step() -> None:
    with pytest.raises(StateVersionError, match=r"format 99.*new checkpoint folder"):
        from_bytes(
            to_bytes(ClusterState()).replace(f'"version":{STATE_VERSION}'.encode(), b'"version":99')
        )
