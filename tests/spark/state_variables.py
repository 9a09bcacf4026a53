"""Spark's state variable in memory, with what makes them hard: attempts that commit and attempts
that do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streaming.state.store import Rows

Row = tuple[Any, ...]


@dataclass
class CountingMap:
    """A map state that counts calls."""

    rows: dict[Row, Row] = field(default_factory=dict)
    calls: list[tuple[str, Row]] = field(default_factory=list)

    def getValue(self, key: Row) -> Row | None:
        self.calls.append(("get", key))
        return self.rows.get(key)

    def updateValue(self, key: Row, value: Row) -> None:
        self.calls.append(("update", key))
        self.rows[key] = value

    def removeKey(self, key: Row) -> None:
        self.calls.append(("remove", key))
        self.rows.pop(key, None)


@dataclass
class Spark:
    """The state variable, which commits or does not, as micro-batches do."""

    state: CountingMap = field(default_factory=CountingMap)

    def attempt(self) -> Spark:
        """What a task sees and changes; it becomes Spark's state when the batch commits."""
        return Spark(CountingMap(dict(self.state.rows)))

    def values(self, part: str) -> list[bytes]:
        """`part`: head, clusters, brokers or tables."""
        return [
            value for (name,), (value,) in self.state.rows.items() if name.partition("/")[0] == part
        ]

    def calls(self, *parts: str) -> list[str]:
        return [
            call
            for call, (name,) in self.state.calls
            if not parts or name.partition("/")[0] in parts
        ]

    def rows(self) -> Rows:
        return Rows(self.state)

    def getMapState(self, _name: str, _key: object, _value: object) -> CountingMap:
        """As the handle that a processor is given."""
        return self.state
