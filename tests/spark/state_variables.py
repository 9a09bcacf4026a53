"""Spark's state variables in memory, with what makes them hard: attempts that commit and attempts that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streaming.store import Variables

Row = tuple[Any, ...]


@dataclass
class CountingMap:
    """A map state that counts calls."""

    rows: dict[Row, Row] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def getValue(self, key: Row) -> Row | None:
        self.calls.append("get")
        return self.rows.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        self.calls.append("update")
        self.rows[key] = value

    def removeKey(self, key: Row) -> None:
        self.calls.append("remove")
        self.rows.pop(key, None)


@dataclass
class Spark:
    """State variables that commit or do not, as micro-batches do."""

    clusters: CountingMap = field(default_factory=CountingMap)
    brokers: CountingMap = field(default_factory=CountingMap)
    tables: CountingMap = field(default_factory=CountingMap)

    def attempt(self) -> Spark:
        """What a task sees and changes; it becomes Spark's state when the batch commits."""
        return Spark(*(CountingMap(dict(variable.rows)) for variable in (self.clusters, self.brokers, self.tables)))

    def calls(self) -> list[str]:
        return [call for variable in (self.clusters, self.brokers, self.tables) for call in variable.calls]

    @property
    def variables(self) -> Variables:
        return Variables(self.clusters, self.brokers, self.tables)

    def getMapState(self, name: str, _key: object, _value: object) -> CountingMap:
        """As the handle that a processor is given."""
        return {"clusters": self.clusters, "brokers": self.brokers, "tables": self.tables}[name]
