"""What a report and a round cost in the plain loop: decoding, folding, and the round that closes at
the sweep.

Decoding and folding are timed apart, over groups of reports, as `pulsar_rebalancer.lab.plain_loop`
does them. Every strategy has a store of its own and folds the same decoded records. Times are CPU
times, for the loop waits for nothing but its turn; only a whole pass is also given in time that
passed, because that is what a micro-batch can be compared with.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from time import perf_counter, thread_time

from benchmarks.figures import Sample, sample
from benchmarks.fleet import Fleet
from sinks.wire.event_to_topic_rows import event_row
from sinks.wire.record_decoding import Position, decode, pack_origin
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, TelemetryRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import RoundSettings
from strategies.shedding.avg.settings import AvgSettings

#: Reports timed together: few enough to stay in the cache as they would in the loop, enough to make
#: the clock's own cost vanish.
_GROUP = 25

#: Commands expire and cool down before the next round, so that each of them decides anew;
#: AvgShedder acts at its first urgent hit.
_ROUND = RoundSettings(command_ttl_ms=30_000, cool_down_ms=0)
SETTINGS: Mapping[str, EngineSettings] = {
    "threshold": EngineSettings("threshold", round=_ROUND),
    "avg": EngineSettings(
        "avg",
        shedding=AvgSettings(high_threshold=35, hit_count_high=1, hit_count_low=1000),
        round=_ROUND,
    ),
    "steady": EngineSettings("steady", round=_ROUND),
}


@dataclass(frozen=True, slots=True)
class PlainCost:
    """CPU µs per report, CPU ms per round (records of its commands and of itself included), elapsed
    ms per pass; `commands` of the last.
    """

    brokers: int
    strategy: str
    decode_us: Sample
    fold_us: Sample
    both_us: Sample
    round_ms: Sample
    pass_ms: Sample
    commands: int


@dataclass(slots=True)
class _Stopwatch:
    """Seconds spent inside its `with` blocks: of CPU, and as they passed."""

    cpu: float = 0.0
    wall: float = 0.0

    def __enter__(self) -> None:
        self.cpu -= thread_time()
        self.wall -= perf_counter()

    def __exit__(self, *_: object) -> None:
        self.cpu += thread_time()
        self.wall += perf_counter()


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass cost with one strategy."""

    decode: _Stopwatch
    fold: _Stopwatch
    round: _Stopwatch
    commands: int


def measure(fleet: Fleet, warm_up: int, passes: int) -> Iterator[PlainCost]:
    """One result per strategy, from `passes` passes over the fleet after `warm_up` ones."""
    loops = {name: (Engine(settings), InMemoryStore()) for name, settings in SETTINGS.items()}
    measured: dict[str, list[_Pass]] = {name: [] for name in loops}
    for number in range(warm_up + passes):
        for name, result in _one_pass(fleet, number, loops).items():
            if number >= warm_up:
                measured[name].append(result)
    for name, results in measured.items():
        yield _cost(fleet, name, results)


def _one_pass(
    fleet: Fleet, number: int, loops: Mapping[str, tuple[Engine, InMemoryStore]]
) -> dict[str, _Pass]:
    decoding, folding = _Stopwatch(), {name: _Stopwatch() for name in loops}
    values = fleet.reports(number)
    while group := list(islice(values, _GROUP)):
        with decoding:
            records = [_decode(value) for value in group]
        for name, (engine, store) in loops.items():
            with folding[name]:
                for record in records:
                    engine.fold(record, store)
    closing = fleet.sweep(number)
    return {
        name: _Pass(decoding, folding[name], *_round(closing, engine, store))
        for name, (engine, store) in loops.items()
    }


def _round(closing: bytes, engine: Engine, store: InMemoryStore) -> tuple[_Stopwatch, int]:
    """What a round costs from the bytes of the sweep to the bytes of what was decided, and how many
    commands that were.
    """
    watch = _Stopwatch()
    with watch:
        events = engine.fold(_decode(closing), store)
        rows = [event_row(event) for event in events]
    if not any(row.kind == "rounds" for row in rows):
        raise AssertionError("no round closed at the sweep: there is nothing to measure")
    return watch, sum(isinstance(event, Command) for event in events)


def _decode(value: bytes) -> TelemetryRecord:
    return decode(value, pack_origin(Position("bench", 0, 0), value))


def _cost(fleet: Fleet, strategy: str, passes: list[_Pass]) -> PlainCost:
    us = 1e6 / fleet.brokers
    return PlainCost(
        brokers=fleet.brokers,
        strategy=strategy,
        decode_us=sample([one.decode.cpu * us for one in passes]),
        fold_us=sample([one.fold.cpu * us for one in passes]),
        both_us=sample([(one.decode.cpu + one.fold.cpu) * us for one in passes]),
        round_ms=sample([one.round.cpu * 1e3 for one in passes]),
        pass_ms=sample(
            [(one.decode.wall + one.fold.wall + one.round.wall) * 1e3 for one in passes]
        ),
        commands=passes[-1].commands,
    )
