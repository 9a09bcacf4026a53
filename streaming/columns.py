"""The typed columns under which brokers lie in Spark's state, so that anybody can query them from a checkpoint.

One row of state holds many brokers, every column as an array with one element per broker: what took a call to Spark per broker takes one
per micro-batch. Raise `checkpoint.COLUMNS_VERSION` with every change: Spark cannot read rows of other columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from pyspark.sql.types import ArrayType, BinaryType, DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from strategies.model import BrokerMemory, Figures, Resource, Traffic
from strategies.store import BrokerState
from strategies.table_summary import TableSummary

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_TRAFFIC = tuple(field.name for field in fields(Traffic))


def _struct(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


BROKER = _struct(
    ("broker", StringType()),
    ("joined", LongType()),
    ("reported_at_ms", LongType()),
    ("reported_round", LongType()),
    ("bundles_at_ms", LongType()),
    ("sampled_at_ms", LongType()),
    ("sampled_round", LongType()),
    ("judged_after_ms", LongType()),
    ("digest", StringType()),
    ("bundles_digest", StringType()),
    *((f"{name}_{part}", DoubleType()) for name in _RESOURCES for part in ("usage", "limit")),
    *((name, DoubleType()) for name in _TRAFFIC),
    ("bundle_count", LongType()),
    ("usage_average", DoubleType()),
    ("throughput_average", DoubleType()),
    ("updated_at_ms", LongType()),
    ("ewma", DoubleType()),
    ("placement_ewma", DoubleType()),
    ("hit_high", IntegerType()),
    ("hit_low", IntegerType()),
    ("throughput_ewma", DoubleType()),
    ("gave_at_ms", LongType()),
    *((f"table_{field.name}", DoubleType() if field.type == "float" else LongType()) for field in fields(TableSummary)),
)
#: An entry of a journal: `gone` names brokers that are forgotten.
ENTRY_KEY = _struct(("cluster", StringType()), ("entry", LongType()))
BROKERS_VALUE = _struct(*((field.name, ArrayType(field.dataType)) for field in BROKER), ("gone", ArrayType(StringType())))
TABLES_VALUE = _struct(("packed", BinaryType()))
#: `token`: another one after every change; `brokers`, `tables`: the entries that count, oldest first.
CLUSTER_KEY = _struct(("cluster", StringType()))
CLUSTER_VALUE = _struct(
    ("packed", BinaryType()), ("token", StringType()), ("brokers", ArrayType(LongType())), ("tables", ArrayType(LongType()))
)

_DOUBLE, _LONG = "d", "l"
#: Columns that always have a value, by the kind of the array that takes them to Spark quickest; others go as lists.
_ARRAYS = {
    field.name: _DOUBLE if isinstance(field.dataType, DoubleType) else _LONG
    for field in BROKER
    if isinstance(field.dataType, DoubleType | LongType)
    and field.name not in ("usage_average", "throughput_average", "updated_at_ms", *(field.name for field in fields(BrokerMemory)))
}
_OWN_NAMES = tuple(field.name for field in fields(BrokerState) if field.name not in ("broker", "figures", "memory", "table"))
_OWN = attrgetter(*_OWN_NAMES)
_RESOURCE_NUMBERS = attrgetter(*(f"{name}.{part}" for name in _RESOURCES for part in ("usage", "limit")))
_TRAFFIC_NUMBERS = attrgetter(*_TRAFFIC)
_MEMORY = attrgetter(*(field.name for field in fields(BrokerMemory)))
_TABLE = attrgetter(*(field.name for field in fields(TableSummary)))


def brokers_row(entry: Mapping[str, BrokerState | None]) -> tuple[Any, ...]:
    """BROKERS_VALUE of brokers by name; None for one that is forgotten."""
    rows = [(name, *_numbers(state)) for name, state in entry.items() if state is not None]
    columns = zip(*rows, strict=True) if rows else ((),) * len(BROKER)
    gone = [name for name, state in entry.items() if state is None]
    return (*(_column(field.name, column) for field, column in zip(BROKER, columns, strict=True)), gone)


def brokers_of(row: Sequence[Any]) -> dict[str, BrokerState | None]:
    """Inverse of `brokers_row`."""
    *columns, gone = row
    absent = [None] * len(columns[0])
    brokers = [_broker(one) for one in zip(*(absent if column is None else column for column in columns), strict=True)]
    return {broker.broker: broker for broker in brokers} | dict.fromkeys(gone)


def _column(name: str, values: Iterable[Any]) -> Any:
    kind = _ARRAYS.get(name)
    if kind is not None:
        return array(kind, values)
    column = list(values)
    return None if column and all(value is None for value in column) else column


def _numbers(state: BrokerState) -> tuple[Any, ...]:
    figures = state.figures
    return (
        *_OWN(state),
        *_RESOURCE_NUMBERS(figures),
        *_TRAFFIC_NUMBERS(figures.traffic),
        figures.bundle_count,
        figures.usage_average,
        figures.throughput_average,
        figures.updated_at_ms,
        *_MEMORY(state.memory),
        *_TABLE(state.table),
    )


def _broker(row: tuple[Any, ...]) -> BrokerState:
    own = dict(zip(_OWN_NAMES, row[1:], strict=False))
    numbers = row[1 + len(own) :]
    cpu, memory, direct, inbound, outbound = (Resource(numbers[i], numbers[i + 1]) for i in range(0, 10, 2))
    figures = Figures(cpu, memory, direct, inbound, outbound, Traffic(*numbers[10:14]), *numbers[14:18])
    return BrokerState(broker=row[0], figures=figures, memory=BrokerMemory(*numbers[18:24]), table=TableSummary(*numbers[24:]), **own)
