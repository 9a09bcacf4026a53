"""A job that begins at the start of the window, and publishes nothing for its duration, then
publishes what one says that ran all along.

Both decide on what another job's telemetry shows: nobody has carried out their commands before the
boundary, and both know it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest

from strategies.engine import Engine, EngineSettings
from strategies.limits.settings import LimitSettings
from strategies.model import Command, Event, Rejection, Round, TelemetryRecord
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from strategies.store import InMemoryStore
from strategies.warm_start import MOST_SAMPLES, faded_after, fold_unseen, warm_window_ms
from tests.properties.recordings import MINUTE_MS, some_records

#: Rounds that are compared, after the boundary.
COMPARED = 120
#: The placement of most strategies of the modular load manager compares averages of 1,000 samples,
#: which fade within a month, not within a window.
PLACED = "least_resource_usage"
CHANGED_TO = {
    "threshold": EngineSettings(
        "threshold",
        shedding=ThresholdSettings(threshold_percent=4.0, min_throughput_mib=0.1),
        placement=PLACED,
    ),
    "avg": EngineSettings("avg", limits=LimitSettings(moves_per_hour=7)),
    "overload": EngineSettings(
        "overload", shedding=OverloadSettings(threshold_percent=40.0), placement=PLACED
    ),
    "uniform": EngineSettings("uniform", placement=PLACED),
    "transfer": EngineSettings("transfer", shedding=TransferSettings(target_std=0.08)),
    "steady": EngineSettings("steady"),
}


def published(
    settings: EngineSettings, records: Sequence[TelemetryRecord], boundary_ms: int
) -> list[Event]:
    """Commands and rounds of a job that reads these records, from the boundary on."""
    engine, store, events = Engine(settings), InMemoryStore(), list[Event]()
    for record in records:
        if record.ts < boundary_ms:
            fold_unseen(engine, record, store)
        else:
            events += engine.fold(record, store)
    return [event for event in events if not isinstance(event, Rejection)]


def comparable(events: Sequence[Event]) -> list[dict[str, Any]]:
    """All fields, with round numbers from 0, without what is a hash of a round number."""
    first = next(event.round for event in events if not isinstance(event, Rejection))
    fields = []
    for event in events:
        if isinstance(event, Command):
            fields.append(asdict(replace(event, id="", round=event.round - first)))
        elif isinstance(event, Round):
            ids = ("",) * len(event.commands)
            fields.append(
                asdict(replace(event, digest="", round=event.round - first, commands=ids))
            )
    return fields


def halves(settings: EngineSettings, seed: int) -> tuple[list[Event], list[Event]]:
    """What a job publishes that ran all along, and what a warmed one does."""
    window = warm_window_ms(settings)
    records = some_records(seed, window // MINUTE_MS + COMPARED + Random(seed).randint(100, 300))
    boundary_ms = records[-1].ts - COMPARED * MINUTE_MS
    late = [record for record in records if record.ts >= boundary_ms - window]
    assert 100 < len(late) < len(records)
    return published(settings, records, boundary_ms), published(settings, late, boundary_ms)


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", [name for name in SHEDDERS if name != "steady"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rounds_after_the_window_are_those_of_a_job_that_ran_all_along(
    strategy: str, seed: int
) -> None:
    all_along, warmed = halves(CHANGED_TO[strategy], seed)
    assert any(isinstance(event, Command) for event in all_along)
    assert comparable(warmed) == comparable(all_along)


@pytest.mark.heavy
def test_rounds_of_steady_too() -> None:
    all_along, warmed = halves(CHANGED_TO["steady"], 2)
    assert any(isinstance(event, Command) for event in all_along)
    assert comparable(warmed) == comparable(all_along)


def test_a_cold_start_decides_otherwise() -> None:
    """What the window is for: without it, the averages of the first rounds are others."""
    settings = CHANGED_TO["threshold"]
    records = some_records(1, 700)
    boundary_ms = records[-1].ts - COMPARED * MINUTE_MS
    all_along = published(settings, records, boundary_ms)
    cold = published(settings, [one for one in records if one.ts >= boundary_ms], boundary_ms)
    assert comparable(cold) != comparable(all_along)


def test_commands_that_nobody_sees_leave_nothing_behind() -> None:
    settings, store = CHANGED_TO["uniform"], InMemoryStore()
    engine = Engine(settings)
    for record in some_records(1, 100):
        fold_unseen(engine, record, store)
        state = store.get_cluster()
        left = (state.in_flight, state.cooling, state.orders, state.rehearsed, state.spent)
        assert not any(left)
    assert store.get_cluster().round > 90


def test_the_window_follows_the_settings() -> None:
    plain = EngineSettings("threshold")
    slow = replace(plain, shedding=ThresholdSettings(history=0.99))
    often = replace(plain, round=replace(plain.round, interval_ms=10_000))
    assert warm_window_ms(often) < warm_window_ms(plain) < warm_window_ms(slow)
    rests = replace(plain, round=replace(plain.round, cool_down_ms=10 * 3_600_000))
    assert warm_window_ms(rests) - warm_window_ms(plain) == 9 * 3_600_000


@pytest.mark.parametrize(
    ("weight", "samples"), [(0.0, 1), (0.9, 489), (1.0, MOST_SAMPLES), (0.9999, MOST_SAMPLES)]
)
def test_an_average_fades(weight: float, samples: int) -> None:
    assert faded_after(weight) == samples
