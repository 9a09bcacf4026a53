"""Limits that change under a checkpoint: the job goes on with all it remembers, and decides by the new ones from there on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sinks.origin import pack_origin
from sinks.outputs import event_row
from sinks.position import Position
from sinks.wire import decode
from strategies.engine import Engine, EngineSettings
from strategies.limits.settings import LimitSettings
from strategies.store import InMemoryStore
from streaming.job import run_job
from tests.spark.workshop import Published, Workshop, eager, recording

pytestmark = pytest.mark.spark
CAREFUL = replace(eager(), limits=LimitSettings(moves_per_round=1))


def folded(*parts: tuple[list[bytes], EngineSettings]) -> Published:
    """One memory, and each part of a log decided by its own settings."""
    store, rows = InMemoryStore(), []
    for lines, settings in parts:
        engine = Engine(settings)
        for line in lines:
            rows += [event_row(event) for event in engine.fold(decode(line, pack_origin(Position("log", 0, 0), line)), store)]
    return {kind: [row.value for row in rows if row.kind == kind] for kind in ("commands", "rounds")}


def test_the_second_half_is_decided_by_the_new_limits_and_the_old_memory(spark: SparkSession, workshop: Workshop) -> None:
    lines = recording("modular-broker-killed")
    first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    said: list[str] = []
    workshop.put(first)
    run_job(workshop.job(), eager(), drain=True, session=spark)
    workshop.put(second)
    run_job(workshop.job(), CAREFUL, drain=True, session=spark, say=said.append)

    published = workshop.published()
    assert {kind: published[kind] for kind in ("commands", "rounds")} == folded((first, eager()), (second, CAREFUL))
    assert published["rounds"] not in (folded((lines, eager()))["rounds"], folded((lines, CAREFUL))["rounds"])
    assert [json.loads(record)["round"] for record in published["rounds"]] == list(range(1, len(published["rounds"]) + 1))
    assert any(line.startswith("limits.moves_per_round: 1 from here on; it was 0 up to micro-batch") for line in said)
