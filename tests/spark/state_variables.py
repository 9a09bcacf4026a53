"""Spark's state variable in memory, with what makes them hard: attempts that commit and attempts
that do not.
"""

from dataclasses import dataclass, field

from streaming.checkpoint_state.reader import MemoryVariable
from streaming.state.store import Row, Rows


@dataclass
class CountingMap(MemoryVariable):
    calls: list[tuple[str, Row]] = field(default_factory=list)

    def getValue(self, key: Row) -> Row | None:
        self.calls.append(("get", key))
        return super().getValue(key)

    def updateValue(self, key: Row, value: Row) -> None:
        self.calls.append(("update", key))
        super().updateValue(key, value)

    def removeKey(self, key: Row) -> None:
        self.calls.append(("remove", key))
        super().removeKey(key)


@dataclass
class Spark:
    """The state variable, which commits or does not, as micro-batches do."""

    state: CountingMap = field(default_factory=CountingMap)

    def attempt(self) -> "Spark":
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
