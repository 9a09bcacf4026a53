"""The typed columns under which brokers lie in Spark's state, so that anybody can query them from a checkpoint.

One row of state holds many brokers; a column holds several values of each, one broker's after the other's, in the order of `VALUES`. Few
and long: Spark makes code for every column in every micro-batch, which costs more than a hundred brokers' values do. Raise
`checkpoint.COLUMNS_VERSION` with every change: Spark cannot read rows of other columns.
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
#: An entry of a journal: `gone` names brokers that are forgotten.
ENTRY_KEY = _struct(("cluster", StringType()), ("entry", LongType()))
BROKERS_VALUE = _struct(*((name, ArrayType(kind)) for name, kind in zip(VALUES, _KINDS, strict=True)), ("gone", ArrayType(StringType())))
TABLES_VALUE = _struct(("packed", BinaryType()))
#: `token`: another one after every change; `brokers`, `tables`: the entries that count, oldest first.
CLUSTER_KEY = _struct(("cluster", StringType()))
CLUSTER_VALUE = _struct(
    ("packed", BinaryType()), ("token", StringType()), ("brokers", ArrayType(LongType())), ("tables", ArrayType(LongType()))
)

#: Columns that always have values, by the kind of the array that takes them to Spark quickest; others go as lists.
_ARRAYS = {"integers": "l", "numbers": "d"}
_PATHS = tuple(path for paths in VALUES.values() for path in paths)


def brokers_row(entry: Mapping[str, BrokerState | None]) -> tuple[Any, ...]:
    """BROKERS_VALUE of brokers by name; None for one that is forgotten."""
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
