"""What the job publishes: three kinds of records, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: In this order, so that on file topics whoever sees a round record finds its commands.
KINDS = ("commands", "rounds", "rejected")
_NAME = "written"


@dataclass(frozen=True, slots=True)
class Written:
    """How many records of each kind one micro-batch, or the whole run, has published."""

    commands: int = 0
    rounds: int = 0
    rejected: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.commands + other.commands, self.rounds + other.rounds, self.rejected + other.rejected)


def counted(rows: DataFrame) -> DataFrame:
    """The same rows; how many of each kind a micro-batch has stands in its progress event (`observed`)."""
    return rows.observe(_NAME, *(F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in KINDS))


def observed(progress: Any) -> Written:
    """What one micro-batch has published, from Spark's StreamingQueryProgress."""
    counts = progress.observedMetrics.get(_NAME)
    return Written() if counts is None else Written(**counts.asDict())
