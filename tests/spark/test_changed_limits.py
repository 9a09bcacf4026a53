"""Limits that change under a checkpoint: the job goes on with all it remembers, and decides by the
new ones from there on.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sinks.wire.codec import decode
from sinks.wire.origin import Position, pack_origin
from sinks.wire.output_rows import event_row
from strategies.cluster.rule_settings import LimitSettings
from strategies.cluster.store import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from streaming.job import run_job
from tests.replayed import Published
from tests.spark.workshop import Workshop, eager, recording

pytestmark = pytest.mark.spark
CAREFUL = replace(eager(), limits=LimitSettings(moves_per_round=1))
#: What the job makes of them: a change takes the next epoch.
IN_EPOCH_2 = replace(CAREFUL, round=replace(CAREFUL.round, epoch=2))


def folded(*parts: tuple[list[bytes], EngineSettings]) -> Published:
    """One memory, and each part of a log decided by its own settings."""
    store, rows = InMemoryStore(), []
    for lines, settings in parts:
        engine = Engine(settings)
        for line in lines:
            rows += [
                event_row(event)
                for event in engine.fold(
                    decode(line, pack_origin(Position("log", 0, 0), line)), store
                )
            ]
    return {
        kind: [row.value for row in rows if row.kind == kind] for kind in ("commands", "rounds")
    }


def test_the_second_half_is_decided_by_the_new_limits_and_the_old_memory(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines = recording("modular-broker-killed")
    first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    said: list[str] = []
    workshop.put(first)
    run_job(workshop.job(), eager(), drain=True, session=spark)
    workshop.put(second)
    run_job(workshop.job(), CAREFUL, drain=True, session=spark, log=said.append)

    published = workshop.published()
    assert {kind: published[kind] for kind in ("commands", "rounds")} == folded(
        (first, eager()), (second, IN_EPOCH_2)
    )
    assert published["rounds"] not in (
        folded((lines, eager()))["rounds"],
        folded((lines, IN_EPOCH_2))["rounds"],
    )
    assert [json.loads(record)["round"] for record in published["rounds"]] == list(
        range(1, len(published["rounds"]) + 1)
    )
    assert any(
        line.startswith(
            "limits.moves_per_round: 1 from here on; it was 0 in epoch 1, up to micro-batch"
        )
        for line in said
    )


def test_an_older_back_up_under_the_new_limits_gives_no_id_a_second_meaning(
    spark: SparkSession, workshop: Workshop
) -> None:
    lines, copy = recording("modular-broker-killed"), workshop.folder / "copy"
    workshop.put(lines[: len(lines) // 4])
    run_job(workshop.job(), eager(), drain=True, session=spark)
    shutil.copytree(workshop.checkpoint, copy)
    workshop.put(lines[len(lines) // 4 :])
    run_job(workshop.job(), eager(), drain=True, session=spark)

    shutil.rmtree(workshop.checkpoint)
    shutil.copytree(copy, workshop.checkpoint)
    run_job(workshop.job(), CAREFUL, drain=True, session=spark)

    published = workshop.published()
    commands, rounds = (
        [json.loads(record) for record in published[kind]] for kind in ("commands", "rounds")
    )
    assert {record["epoch"] for record in rounds} == {1, 2}
    for records, key in ((commands, ("id",)), (rounds, ("cluster", "epoch", "round"))):
        named = [tuple(record[part] for part in key) for record in records]
        assert len(named) == len(set(named)), "decided twice under one name"
    assert rounds != [] != commands
