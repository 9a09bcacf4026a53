"""Counts the records that the job publishes, by kind, and passes on the facts for the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streaming.outputs.facts import FACTS, BatchFacts, read_facts

#: Order of publishing: on file topics, a reader that sees a round finds its commands.
KINDS = ("commands", "rounds", "rejected")
_NAME = "written"


@dataclass(frozen=True, slots=True)
class Written:
    """Number of records of each kind that a micro-batch, or the whole run, has published."""

    commands: int = 0
    rounds: int = 0
    rejected: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(
            self.commands + other.commands,
            self.rounds + other.rounds,
            self.rejected + other.rejected,
        )


def counted(rows: DataFrame, *, with_facts: bool = False) -> DataFrame:
    """The same rows, with the counts of each kind added to the progress event of the micro-batch
    (`observed`).

    `with_facts`: the rows contain facts; these are added to the event too, and removed.
    """
    counts = [F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in KINDS]
    if not with_facts:
        return rows.observe(_NAME, *counts)
    facts = F.collect_list(F.when(F.col("kind") == FACTS, F.col("value").cast("string")))
    return rows.observe(_NAME, *counts, facts.alias(FACTS)).where(F.col("kind") != FACTS)


def observed(progress: Any) -> Written:
    """Counts of one micro-batch, from Spark's StreamingQueryProgress."""
    counts = _observed(progress)
    return Written(**{kind: counts[kind] for kind in KINDS if kind in counts})


def observed_facts(progress: Any) -> tuple[BatchFacts, ...]:
    """Facts of one micro-batch, from Spark's StreamingQueryProgress; empty without metrics."""
    return tuple(read_facts(value) for value in _observed(progress).get(FACTS, ()))


def _observed(progress: Any) -> Mapping[str, Any]:
    found = progress.observedMetrics.get(_NAME)
    return {} if found is None else found.asDict()
