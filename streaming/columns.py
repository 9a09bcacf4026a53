"""The typed columns under which brokers lie in Spark's state, so that anybody can query them from a checkpoint.

One row of state holds many brokers; a column holds several values of each, one broker's after the other's, in the order of `VALUES`. Few
and long, and all in one state variable: Spark makes code for every column of every variable in every micro-batch, which costs more than a
hundred brokers' values do. Raise `checkpoint.COLUMNS_VERSION` with every change: Spark cannot read rows of other columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

from pyspark.sql.types import ArrayType, BinaryType, DataType, DoubleType, LongType, StringType, StructField, StructType

from strategies.model import BrokerMemory, Figures, Resource, Traffic
from strategies.store import BrokerState
from strategies.table_summary import TableSummary

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_TRAFFIC = tuple(field.name for field in fields(Traffic))
#: Column → what of a BrokerState stands in it. Of the last two columns, everything may be None.
VALUES: Mapping[str, tuple[str, ...]] = {
    "brokers": ("broker",),
    "digests": ("digest", "bundles_digest"),
    "integers": (
        *("order", "reported_at_ms", "reported_round", "bundles_at_ms", "sampled_at_ms", "sampled_round", "judged_after_ms"),
        *("figures.bundle_count", "table.topics", "table.most_topics", "table.most_sessions"),
    ),
    "numbers": (
        *(f"figures.{name}.{part}" for name in _RESOURCES for part in ("usage", "limit")),
        *(f"figures.traffic.{name}" for name in _TRAFFIC),
        *("table.rate_in", "table.rate_out", "table.most_rate", "table.most_throughput"),
    ),
    "optional_integers": ("figures.updated_at_ms", "memory.hit_high", "memory.hit_low", "memory.gave_at_ms"),
    "optional_numbers": (
        *("figures.usage_average", "figures.throughput_average"),
        *("memory.ewma", "memory.placement_ewma", "memory.throughput_ewma"),
    ),
}


def _struct(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


_KINDS = (StringType(), StringType(), LongType(), DoubleType(), LongType(), DoubleType())
#: What a row of the state is, and which columns it then has: of a cluster, its packed state, a `token` (another one after every change) and
#: which entries of the other two count, oldest first; of `brokers`, an entry of their journal, where `gone` names those that are forgotten;
#: of `tables`, an entry of packed bundle tables.
PARTS: Mapping[str, tuple[str, ...]] = {
    "cluster": ("packed", "token", "broker_entries", "table_entries"),
    "brokers": (*VALUES, "gone"),
    "tables": ("packed",),
}
STATE_KEY = _struct(("cluster", StringType()), ("part", StringType()), ("entry", LongType()))
STATE_VALUE = _struct(
    ("packed", BinaryType()),
    ("token", StringType()),
    ("broker_entries", ArrayType(LongType())),
    ("table_entries", ArrayType(LongType())),
    *((name, ArrayType(kind)) for name, kind in zip(VALUES, _KINDS, strict=True)),
    ("gone", ArrayType(StringType())),
)
_PLACES = {part: [STATE_VALUE.names.index(name) for name in names] for part, names in PARTS.items()}


def part_of(part: str, value: Sequence[Any]) -> tuple[Any, ...]:
    """The columns that a row of that part has."""
    return tuple(value[place] for place in _PLACES[part])


def row_of(part: str, columns: Sequence[Any]) -> tuple[Any, ...]:
    """Inverse of `part_of`: STATE_VALUE."""
    row = [None] * len(STATE_VALUE)
    for place, column in zip(_PLACES[part], columns, strict=True):
        row[place] = column
    return tuple(row)


#: Columns that always have values, by the kind of the array that takes them to Spark quickest; others go as lists.
_ARRAYS = {"integers": "l", "numbers": "d"}
_PATHS = tuple(path for paths in VALUES.values() for path in paths)


def brokers_row(entry: Mapping[str, BrokerState | None]) -> tuple[Any, ...]:
    """Columns of part `brokers`, of brokers by name; None for one that is forgotten."""
    brokers = [state for state in entry.values() if state is not None]
    gone = [name for name, state in entry.items() if state is None]
    return (*(_column(name, brokers) for name in VALUES), gone)


def brokers_of(row: Sequence[Any]) -> dict[str, BrokerState | None]:
    """Inverse of `brokers_row`."""
    *columns, gone = row
    count = len(columns[0])
    stretches = (_stretches(column, len(paths), count) for column, paths in zip(columns, VALUES.values(), strict=True))
    brokers = [_broker(list(chain.from_iterable(values))) for values in zip(*stretches, strict=True)]
    return {broker.broker: broker for broker in brokers} | dict.fromkeys(gone)


def _column(name: str, brokers: Sequence[BrokerState]) -> Any:
    values = [value for broker in brokers for value in _PICKED[name](broker)]
    if name in _ARRAYS:
        return array(_ARRAYS[name], values)
    return None if values and all(value is None for value in values) else values


def _stretches(column: Sequence[Any] | None, width: int, count: int) -> Iterator[Sequence[Any]]:
    if column is None:
        return repeat((None,) * width, count)
    return (column[start : start + width] for start in range(0, count * width, width))


def _picked(paths: Sequence[str]) -> Callable[[BrokerState], tuple[Any, ...]]:
    if len(paths) > 1:
        return attrgetter(*paths)
    only = attrgetter(paths[0])
    return lambda state: (only(state),)


_PICKED = {name: _picked(paths) for name, paths in VALUES.items()}


def _broker(values: Sequence[Any]) -> BrokerState:
    found: dict[str, Any] = {}
    for path, value in zip(_PATHS, values, strict=True):
        *parents, name = path.split(".")
        inner = found
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[name] = value
    figures = found.pop("figures")
    figures |= {name: Resource(**figures[name]) for name in _RESOURCES} | {"traffic": Traffic(**figures["traffic"])}
    memory, table = BrokerMemory(**found.pop("memory")), TableSummary(**found.pop("table"))
    return BrokerState(figures=Figures(**figures), memory=memory, table=table, **found)
