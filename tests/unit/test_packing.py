"""What is packed comes out again: records on their way to another process, a cluster's state on its
way to a checkpoint.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest

from strategies.cluster.cluster_state import (
    Clock,
    ClusterState,
    Departed,
    Gained,
    InFlight,
    Order,
    Rehearsal,
    quick_replace,
)
from strategies.cluster.model import LoadReport, Note, Policies, TelemetryRecord, Tombstone
from strategies.cluster.move_cost import MoveCost
from strategies.cluster.packed_records import EarlyRecord, pack_record, unpack_record
from strategies.cluster.strategy_memory import ClusterMemory
from strategies.errors import StateVersionError
from strategies.shedding.steady.memory_format import Episode, RecentMove
from streaming.state.state_to_bytes import changed_bytes, from_bytes, to_bytes
from tests.world.telemetry import T0, outcome, report, sweep

APPLIED = outcome("id", "t/ns/0x0_0x1", 3, "applied", "b:1")
COST = MoveCost(16, 310, 12, 2, "modular")


@pytest.mark.parametrize(
    "record",
    [
        sweep(1, "a:1", "b:1", missing={"ç:1": "timed out"}),
        replace(sweep(1, "a:1"), answering=("b:1",), leader="a:1", shedding=False),
        APPLIED,
        replace(APPLIED, outcome=replace(APPLIED.outcome, cost=COST)),
        Tombstone("c", "a:1", T0),
        Policies("c", T0, '{"isolation":{}}'),
        Note("c", T0),
    ],
)
def test_records_survive_packing(record: TelemetryRecord) -> None:
    record = replace(record, origin=b"\x00where it stood")
    assert unpack_record(pack_record(record)) == record


def test_a_load_report_survives_packing_with_its_table() -> None:
    loads = {"t/ü/0x00000000_0x10000000": 1.5, "t/n/0x10000000_0x20000000": 0.1}
    original = replace(report("a:1", 5, 33.3, loads), origin=b"o", started_ms=T0 - 5_000)
    again = unpack_record(pack_record(original))
    assert isinstance(again, LoadReport)
    assert (again.figures, again.digest, again.origin) == (original.figures, original.digest, b"o")
    assert again.started_ms == T0 - 5_000
    assert again.bundles is not None
    assert original.bundles is not None
    assert again.bundles.names == original.bundles.names
    assert np.array_equal(again.bundles.traffic, original.bundles.traffic)


MOVE = RecentMove("b", "a:1", "b:1", 1, 2.0, 3.0, 0.25, 0.5, counted=True, shown=True)
EPISODE = Episode(1, 2, idle_moves=3, planned=4, judged_at_ms=5)


def full_state() -> ClusterState:
    dry = InFlight("dry", "a:1", "b:1", 1, 2, 0.25)
    return ClusterState(
        clock=Clock(5, 6, 7),
        early=(EarlyRecord(7, b"\xff\x00", True),),
        round=4,
        in_flight={"b": InFlight("id", "a:1", None, 1, 2, 0.25, True)},
        cooling={"b": 3},
        departed={"d": Departed((1.0, 0.1), 2)},
        gained={"g": Gained("a:1", 3)},
        missing={"x:1": "timed out"},
        memory=ClusterMemory(2, {"p": "a:1"}, {"scores": 32}, moves=(MOVE,), episode=EPISODE),
        policies="{}",
        dropped=True,
        orders={"b": Order("id", 1, 2, 3.5), "s": Order("split", 1, 2, None)},
        rehearsed={
            "dry": Rehearsal("r", Order("dry", 1, 2, 0.0), dry),
            "t": Rehearsal("t", Order("t", 1, 2, None), None),
        },
    )


def test_a_clusters_state_survives_its_bytes() -> None:
    assert from_bytes(to_bytes(full_state())) == full_state()
    assert from_bytes(to_bytes(ClusterState())) == ClusterState()


def test_odd_figures_survive_to_the_bit() -> None:
    """JSON has no such numbers."""
    odd = ClusterState(departed={"d": Departed((inf, -0.0, 5e-324, 0.1 + 0.2), 2)})
    kept = from_bytes(to_bytes(odd)).departed["d"].row
    assert [number.hex() for number in kept] == [number.hex() for number in odd.departed["d"].row]
    unknown = ClusterState(departed={"d": Departed((nan,), 2)})
    assert isnan(from_bytes(to_bytes(unknown)).departed["d"].row[0])


def test_a_damaged_state_is_refused_with_a_next_step() -> None:
    whole = to_bytes(full_state())
    for damaged in ({"orders": whole["orders"][:-1]}, {"order": b"\x80"}, {"round": b"\xc0"}):
        with pytest.raises(StateVersionError, match=r"damaged \(.*\): restore the checkpoint"):
            from_bytes({**whole, **damaged})


def after(known: Mapping[str, bytes], changed: Mapping[str, bytes | None]) -> dict[str, bytes]:
    return {name: one for name, one in {**known, **changed}.items() if one is not None}


def test_only_fields_that_change_are_written_and_empty_ones_are_removed() -> None:
    before = full_state()
    known = to_bytes(before)
    later = quick_replace(before, round=5, cooling={}, orders=dict(before.orders))
    changed = changed_bytes(before, later, known)
    assert changed == {"round": b"\x05", "cooling": None}
    assert from_bytes(after(known, changed)) == later


def test_a_quick_copy_refuses_a_name_that_is_no_field() -> None:
    with pytest.raises(TypeError, match="ClusterState has no field rounds"):
        quick_replace(ClusterState(), rounds=1)


def test_of_a_logs_first_records_only_new_ones_are_written() -> None:
    records = tuple(EarlyRecord(ts, bytes(100), False) for ts in range(12))
    before, later = ClusterState(early=records[:11]), ClusterState(early=records)
    known = to_bytes(before)
    backwards = dict(reversed(known.items()))
    assert from_bytes(known) == from_bytes(backwards) == before
    changed = changed_bytes(before, later, known)
    assert [*changed] == ["early/0011"]
    assert from_bytes(after(known, changed)) == later
    done = ClusterState(early=None, round=1)
    closed = changed_bytes(later, done, after(known, changed))
    assert {name for name, packed in closed.items() if packed is None} == {*to_bytes(later)}
    assert from_bytes(after(to_bytes(later), closed)) == done
