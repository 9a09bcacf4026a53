"""A job that begins at the start of the window, and publishes nothing of it, then says what one
says that ran all along: on random clusters, on a simulated day in which another job moves
bundles, and on recordings.
"""

import gzip
import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, cast

import pytest
from pyspark.sql import Row

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from pulsar_rebalancer.lab.simulation.clusters import drawn_world
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    PolledCluster,
    closed_loop,
    outcome_reports,
)
from pulsar_rebalancer.lab.simulation.scenarios.read_scenarios import load
from pulsar_rebalancer.settings.merge_sources import load as settings_of
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import Position, WireLimits, decode_command
from strategies.cluster.budget import HOUR_MS
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import (
    Command,
    Event,
    OutcomeReport,
    Rejection,
    Round,
    TelemetryRecord,
)
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import drop_unseen_moves
from strategies.fold.warm_start_length import MOST_SAMPLES, samples_until_faded, warm_window_ms
from strategies.settings import LimitSettings
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.contract import StrategyMemory
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.threshold.settings import ThresholdSettings
from strategies.shedding.transfer.settings import TransferSettings
from streaming.pack_and_decode_records import Unread, reading
from streaming.processor import end_of_window, fold
from tests.properties.recordings import MINUTE_MS, some_records
from tests.world.simulated_loops import DAY, Recorder
from tests.world.uneven_log import EAGER, uneven

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl.gz"))
#: Rounds that are compared, after the boundary.
COMPARED = 120
#: The placement of most strategies of the modular load manager compares averages of 1,000 samples,
#: which fade within a month, not within a window.
PLACED = "least_resource_usage"
CHANGED_TO = {
    **{name: EngineSettings(name, placement=PLACED) for name in SHEDDERS},
    "threshold": EngineSettings(
        "threshold",
        shedding=ThresholdSettings(threshold_percent=4.0, min_throughput_mib=0.1),
        placement=PLACED,
    ),
    "avg": EngineSettings("avg"),
    "overload": EngineSettings(
        "overload", shedding=OverloadSettings(threshold_percent=40.0), placement=PLACED
    ),
    "uniform": EngineSettings("uniform", placement=PLACED),
    "transfer": EngineSettings("transfer", shedding=TransferSettings(target_std=0.08)),
    "steady": EngineSettings("steady"),
}
#: Forecasts of SteadyShedder read these averages too: there, a warmed job is only no worse.
FADING = {**CHANGED_TO, "steady": EngineSettings("steady", shedding=SteadySettings("tight"))}
#: A strategy that takes over, and the one that moved bundles all day.
_TAKEN_OVER = [
    *((new, "avg") for new in SHEDDERS if new != "steady"),
    *((name, name) for name in SHEDDERS if name not in ("avg", "steady")),
]
#: Random clusters, one of each strategy for `make test`; SteadyShedder takes a minute and a half.
_RANDOM = [
    pytest.param(
        name,
        seed,
        marks=[pytest.mark.slow if name == "steady" and seed != 2 else pytest.mark.lab]
        * (name == "steady" or seed != 2),
    )
    for name in SHEDDERS
    for seed in (2, 1, 3, 4)
]
#: T0 is a Wednesday.
_ANOTHER_DAY = "Mon 00:00-00:01"


@cache
def a_day(moving: str) -> Sequence[TelemetryRecord]:
    """The telemetry of a simulated day, in which a job with this strategy moves bundles."""
    scenario = load("calm-day", DAY).scenario
    recorder = Recorder(EngineSettings(moving, placement=PLACED))
    loop = closed_loop(PolledCluster(drawn_world(scenario, 1), "day"), recorder)
    assert len(list(islice(loop, scenario.minutes))) == 1_440
    return recorder.records


def published(
    settings: EngineSettings, records: Sequence[TelemetryRecord], boundary_ms: int
) -> list[Event]:
    """Commands and rounds of a job that reads these records, from the boundary on."""
    engine, store = Engine(settings), InMemoryStore()
    return [
        event
        for record in records
        for event in engine.fold(record, store)
        if record.ts >= boundary_ms and not isinstance(event, Rejection)
    ]


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


def to_nine_digits(events: Sequence[Event]) -> Any:
    """The same with nine digits of every figure."""
    text = json.dumps(comparable(events), default=str)
    return json.loads(text, parse_float=lambda figure: f"{float(figure):.9g}")


def halves(
    settings: EngineSettings, records: Sequence[TelemetryRecord], boundary_ms: int
) -> tuple[list[Event], list[Event]]:
    """What a job publishes that ran all along, and what a warmed one does."""
    window = warm_window_ms(settings)
    late = [record for record in records if record.ts >= boundary_ms - window]
    assert 100 < len(late) < len(records)
    return published(settings, records, boundary_ms), published(settings, late, boundary_ms)


def random_halves(settings: EngineSettings, seed: int) -> tuple[list[Event], list[Event]]:
    minutes = warm_window_ms(settings) // MINUTE_MS + COMPARED + Random(seed).randint(100, 300)
    records = some_records(seed, minutes)
    return halves(settings, records, records[-1].ts - COMPARED * MINUTE_MS)


@pytest.mark.heavy
@pytest.mark.parametrize(("strategy", "seed"), _RANDOM)
def test_what_a_random_cluster_shows_is_remembered_as_by_a_job_that_ran_all_along(
    strategy: str, seed: int
) -> None:
    """Outside maintenance windows: averages, evidence and hits alone. Where moves are decided that
    nobody carries out for hours, the rhythm in which they are decided again never fades (0255).
    """
    settings = replace(FADING[strategy], limits=LimitSettings(windows=_ANOTHER_DAY))
    all_along, warmed = random_halves(settings, seed)
    assert not any(isinstance(event, Command) and event.is_move for event in all_along)
    assert len(all_along) > 100
    assert comparable(warmed) == comparable(all_along)


@pytest.mark.heavy
def test_a_cold_start_decides_otherwise() -> None:
    """What the window is for: without it, the averages of the first rounds are others."""
    settings = CHANGED_TO["threshold"]
    records = some_records(1, 700)
    boundary_ms = records[-1].ts - COMPARED * MINUTE_MS
    all_along = published(settings, records, boundary_ms)
    cold = published(settings, [one for one in records if one.ts >= boundary_ms], boundary_ms)
    assert comparable(cold) != comparable(all_along)


@pytest.mark.lab
@pytest.mark.parametrize(("strategy", "moving"), _TAKEN_OVER)
def test_after_settings_change_or_a_folder_is_lost_in_a_simulated_day(
    strategy: str, moving: str
) -> None:
    """At a random round, late enough that the window does not hold the whole day. Figures to nine
    digits: an average of the placement fades and never vanishes.
    """
    settings, day = EngineSettings(strategy, placement=PLACED), a_day(moving)
    window = warm_window_ms(settings) // MINUTE_MS
    minute = Random(strategy).randint(window + 30, 1_350)
    all_along, warmed = halves(settings, day, day[0].ts + minute * MINUTE_MS)
    assert len(all_along) > 80
    assert to_nine_digits(warmed) == to_nine_digits(all_along)


@pytest.mark.lab
def test_what_another_strategy_leaves_is_no_worse_for_steady_with_memory_than_without() -> None:
    """In the window, SteadyShedder decides moves that nobody carries out. Once it judged these, and
    the same cluster stayed 16 points apart for two hours.
    """
    steady, window = EngineSettings("steady"), warm_window_ms(EngineSettings("steady"))
    scenario = load("calm-day", DAY).scenario
    cluster, before = PolledCluster(drawn_world(scenario, 4), "day"), Recorder(CHANGED_TO["avg"])
    *_, last = islice(closed_loop(cluster, before), window // MINUTE_MS + 30)
    records = [*before.records, *outcome_reports(last.outcomes)]
    late = [one for one in records if one.ts >= last.round.ts - window]
    assert 100 < len(late) < len(records)
    memory, empty = InMemoryStore(), InMemoryStore()
    assert not list(fold(Engine(steady), offsets(late), memory, until={0: len(late)}))
    end_of_window(memory)
    loops = (
        closed_loop(deepcopy(cluster), EngineDecider(steady, store)) for store in (memory, empty)
    )
    warmed, cold = (fmean(one.round.spread.range for one in islice(loop, 120)) for loop in loops)
    assert warmed <= cold


@pytest.mark.heavy
@pytest.mark.parametrize("known", [True, False])
def test_the_moves_of_the_job_before_are_not_those_of_a_rival(known: bool) -> None:
    """A job that has no commands of its own in its memory knows them by their outcomes."""
    day = a_day("uniform")
    moves = [one for one in day if isinstance(one, OutcomeReport)]
    boundary_ms = moves[len(moves) // 2].ts - 10 * MINUTE_MS
    records = [
        one
        for one in day
        if one.ts >= boundary_ms - HOUR_MS and (known or not isinstance(one, OutcomeReport))
    ]
    warmed = published(EngineSettings("overload"), records, boundary_ms)
    codes = {skip.code for one in warmed if isinstance(one, Round) for skip in one.skips}
    assert ({"moved-by-others", "yielding"} & codes == set()) == known


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", list(SHEDDERS))
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_of_a_recording_all_after_a_random_record_is_published_and_nothing_before(
    path: Path, strategy: str
) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    until = Random(f"{path.stem} {strategy}").randrange(len(lines) // 4, len(lines) * 3 // 4)
    settings = CHANGED_TO[strategy]
    loop, all_along = PlainLoop(settings), list[OutputRow]()
    for number, line in enumerate(lines):
        rows = loop.feed(Position("t", 0, number), line)
        all_along += rows if number >= until else []
    found = list(fold(Engine(settings), topic(lines), InMemoryStore(), until={0: until}))
    assert found == all_along
    assert any(row.kind == "rounds" for row in found)


def topic(lines: Sequence[bytes]) -> list[Unread]:
    rows = (
        Row(topic="t", partition=0, offset=number, value=line, size=len(line))
        for number, line in enumerate(lines)
    )
    return list(reading(WireLimits())(rows))


@dataclass(frozen=True)
class Decoded:
    """A record of a story, which never was bytes."""

    offset: int
    record: TelemetryRecord
    partition: int = 0
    has_quota: bool = False

    def decoded(self) -> TelemetryRecord:
        return self.record


def offsets(records: Sequence[TelemetryRecord]) -> list[Unread]:
    return [cast(Unread, Decoded(number, record)) for number, record in enumerate(records)]


def _judges(settings: AvgSettings) -> StrategyMemory:
    return replace(SHEDDERS["avg"].memory(settings), judges_moves=True)


def eager(*, judges_moves: bool) -> Engine:
    """An AvgShedder that commands at once, as one that judges the effect of its moves or not."""
    judging = SHEDDERS.extended(replace(SHEDDERS["avg"], name="judging", memory=_judges))
    strategy = "judging" if judges_moves else "avg"
    settings = settings_of(flags=EAGER).engine
    return Engine(replace(settings, strategy=strategy, shedders=judging))


def test_only_steady_judges_the_effect_of_its_moves() -> None:
    judging = [name for name in SHEDDERS if Engine(EngineSettings(name)).drops_unconfirmed_moves]
    assert judging == ["steady"]


@pytest.mark.parametrize("judges_moves", [True, False])
def test_dropped_commands_are_taken_back_only_where_the_strategy_judges_moves(
    judges_moves: bool,
) -> None:
    """Bundles that a round of the window has named rest no longer; elsewhere they do, as after a
    round that was published.
    """
    engine, some = eager(judges_moves=judges_moves), topic(uneven(rounds=2))
    first, second = moves_by_round(list(fold(engine, some, InMemoryStore())))
    warmed = list(fold(engine, some, InMemoryStore(), until={0: len(some) // 2}))
    assert first
    assert not second & first
    assert moves_by_round(warmed) == [first if judges_moves else second]


def test_commands_that_were_published_are_not_taken_back() -> None:
    store = InMemoryStore()
    list(fold(eager(judges_moves=True), topic(uneven(rounds=2)), store))
    state = store.get_cluster()
    assert state.in_flight
    assert not state.dropped


def test_moves_that_reports_show_are_not_taken_back() -> None:
    """The job before had commanded them too: its executor has carried them out in the window."""
    some, store = topic(uneven(rounds=1)), InMemoryStore()
    assert not list(fold(eager(judges_moves=True), some, store, until={0: len(some)}))
    state = store.get_cluster()
    shown, *others = state.in_flight
    assert others
    assert state.dropped
    seen = replace(state.in_flight[shown], arrived=True)
    kept = drop_unseen_moves(replace(state, in_flight={**state.in_flight, shown: seen}))
    assert [*kept.in_flight] == [*kept.cooling] == [*kept.orders] == [shown]
    assert [one.bundles for one in kept.spent] == [1]
    assert not kept.dropped


def moves_by_round(rows: Sequence[OutputRow]) -> list[set[str]]:
    found, moved = [], set[str]()
    for row in rows:
        if row.kind == "commands":
            moved.add(decode_command(row.value).bundle)
        else:
            found.append(moved)
            moved = set()
    return found


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
    assert samples_until_faded(weight) == samples
