"""A cluster lives, is away for longer than the setting, and lives again: whatever both lives are,
and whenever its rows leave in between, the same is published.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, TelemetryRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.time_jumps_and_forgetting import DAY_MS, can_be_forgotten
from streaming.state.store import StoreCache
from tests.properties.costly import costly
from tests.properties.legal import seeds
from tests.properties.lives import EAGER_ENGINES, live, moves
from tests.properties.test_fold import published
from tests.spark.state_variables import Spark

ENGINES = [
    replace(one, round=replace(one.round, forget_cluster_after_days=1, clock_recovery_ms=1_000))
    for one in EAGER_ENGINES
]


def later(record: TelemetryRecord, by_ms: int) -> TelemetryRecord:
    if isinstance(record, model.OutcomeReport):
        record = replace(record, outcome=replace(record.outcome, ts=record.outcome.ts + by_ms))
    return replace(record, ts=record.ts + by_ms)


@dataclass(frozen=True, slots=True)
class TwoLives:
    """The records of two lives, and what the plain loop publishes of them. `line_ms`: the cluster's
    time when the first life ended, -1 without one.
    """

    first: Sequence[TelemetryRecord]
    second: Sequence[TelemetryRecord]
    told: list[bytes]
    line_ms: int


def two_lives(engine: EngineSettings, seed: int) -> TwoLives:
    draw, store, loop = Random(seed), InMemoryStore(), Engine(engine)
    first = live(engine, moves(seed, draw.randrange(20, 60))).records
    events = [event for one in first for event in loop.fold(one, store)]
    clock = store.get_cluster().clock
    newest = max(one.ts for one in first) if clock is None else clock.now_ms
    new = live(engine, moves(seed + 1, 60, wild_clocks=False)).records
    gap = newest + DAY_MS + 1 + draw.randrange(10**6) - min(one.ts for one in new)
    second = [later(one, gap) for one in new]
    events += [event for one in second for event in loop.fold(one, store)]
    return TwoLives(first, second, published(events), -1 if clock is None else clock.now_ms)


def in_micro_batches(engine: EngineSettings, lives: TwoLives, draw: Random) -> list[bytes]:
    """The same through a shard, in micro-batches of random sizes, after which rows may leave."""
    spark, worker, events = Spark(), StoreCache(2**20), list[Event]()
    loop = Engine(engine)
    records = [*cut(lives.first, draw), [], *cut(lives.second, draw)]
    for number, batch in enumerate(records):
        attempt = spark.attempt()
        shard = worker.open(0, attempt.rows())
        store = shard.cluster("c")
        events += [event for one in batch for event in loop.fold(one, store)]
        ended = number >= records.index([])
        if ended and draw.random() < 0.5 and can_be_forgotten(store.get_cluster(), lives.line_ms):
            store.forget()
            assert not [*store.brokers(), *store.tables()]
        shard.flush(attempt.rows())
        worker.keep(0, shard)
        spark = attempt
    return published(events)


def cut(records: Sequence[TelemetryRecord], draw: Random) -> Iterator[Sequence[TelemetryRecord]]:
    start = 0
    while start < len(records):
        end = start + draw.choice([1, 7, 30])
        yield records[start:end]
        start = end


@pytest.mark.heavy
@costly
@given(st.sampled_from(ENGINES), seeds)
def test_rows_may_leave_at_any_time_of_the_absence(engine: EngineSettings, seed: int) -> None:
    lives = two_lives(engine, seed)
    assert in_micro_batches(engine, lives, Random(seed)) == lives.told
