"""Counts the records that the job publishes, by kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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


def counted(rows: DataFrame) -> DataFrame:
    """The same rows, with the counts of each kind added to the progress event of the micro-batch
    (`observed`).
    """
    return rows.observe(
        _NAME, *(F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in KINDS)
    )


def observed(progress: Any) -> Written:
    """Counts of one micro-batch, from Spark's StreamingQueryProgress."""
    counts = progress.observedMetrics.get(_NAME)
    return Written() if counts is None else Written(**counts.asDict())
