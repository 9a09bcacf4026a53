"""Writes finished rows into Spark's state, in the operator of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streaming.state.rows import STATE_KEY, STATE_VALUE
from streaming.state.store import MapVariable


class RowWriter(StatefulProcessor):
    """One call per shard, with all its rows; publishes nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state: MapVariable = handle.getMapState("state", STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._state.updateValue((row.name,), (bytes(row.packed),))
        return iter(())

    def close(self) -> None:
        """Does nothing."""
