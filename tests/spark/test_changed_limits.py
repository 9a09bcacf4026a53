"""Limits that change under a checkpoint: the job goes on with all it remembers, and decides by the
new ones from there on.
"""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sinks.wire.event_to_topic_rows import OutputRow, event_row
from sinks.wire.record_decoding import Position, decode, pack_origin
from strategies.cluster.cluster_state import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings
from tests.replayed import Published
from tests.spark.workshop import Workshop, eager, in_epoch
from tools.processes.real_job import recording

pytestmark = pytest.mark.spark
CAREFUL = replace(eager(), limits=LimitSettings(moves_per_round=1))
#: What the job makes of them: a change takes the next epoch.
IN_EPOCH_2 = in_epoch(CAREFUL, 2)
LINES = recording("modular-broker-killed")


def folded(*parts: tuple[list[bytes], EngineSettings]) -> Published:
    """One memory, and each part of a log decided by its own settings."""
    store, rows = InMemoryStore(), list[OutputRow]()
    for lines, settings in parts:
        engine = Engine(settings)
        for line in lines:
            record = decode(line, pack_origin(Position("log", 0, 0), line))
            rows.extend(map(event_row, engine.fold(record, store)))
    return {
        kind: [row.value for row in rows if row.kind == kind] for kind in ("commands", "rounds")
    }


def test_the_second_half_is_decided_by_the_new_limits_and_the_old_memory(
    spark: SparkSession, workshop: Workshop
) -> None:
    first, second = LINES[: len(LINES) // 2], LINES[len(LINES) // 2 :]
    workshop.put(first)
    workshop.drain(spark)
    workshop.put(second)
    said = workshop.drain(spark, CAREFUL).said

    published = workshop.published()
    assert {kind: published[kind] for kind in ("commands", "rounds")} == folded(
        (first, eager()), (second, IN_EPOCH_2)
    )
    wholly = [folded((LINES, settings))["rounds"] for settings in (eager(), IN_EPOCH_2)]
    assert published["rounds"] not in wholly
    numbers = [record["round"] for record in workshop.records("rounds")]
    assert numbers == list(range(1, len(numbers) + 1))
    change = "limits.moves_per_round: 1 from here on; it was 0 in epoch 1, up to micro-batch"
    assert any(line.startswith(change) for line in said)
