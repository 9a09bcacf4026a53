"""The typed columns under which a broker's state lies in Spark, so that anybody can query them from a checkpoint.

Raise `checkpoint.COLUMNS_VERSION` with every change: Spark cannot read rows of other columns.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from pyspark.sql.types import BinaryType, DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from strategies.model import BrokerMemory, Figures, Resource, Traffic
from strategies.store import BrokerState
from strategies.table_summary import TableSummary

_RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")
_TRAFFIC = tuple(field.name for field in fields(Traffic))


def _struct(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


BROKER_KEY = _struct(("broker", StringType()))
BROKER_VALUE = _struct(
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
TABLE_VALUE = _struct(("packed", BinaryType()))
CLUSTER_VALUE = _struct(("packed", BinaryType()))

_OWN = tuple(field.name for field in fields(BrokerState) if field.name not in ("broker", "figures", "memory", "table"))
_MEMORY = attrgetter(*(field.name for field in fields(BrokerMemory)))
_TABLE = attrgetter(*(field.name for field in fields(TableSummary)))


def broker_row(state: BrokerState) -> tuple[Any, ...]:
    """The values of BROKER_VALUE for one broker."""
    figures = state.figures
    resources = (getattr(figures, name) for name in _RESOURCES)
    return (
        *(getattr(state, name) for name in _OWN),
        *(float(number) for resource in resources for number in (resource.usage, resource.limit)),
        *(float(getattr(figures.traffic, name)) for name in _TRAFFIC),
        figures.bundle_count,
        figures.usage_average,
        figures.throughput_average,
        figures.updated_at_ms,
        *_MEMORY(state.memory),
        *_TABLE(state.table),
    )


def broker_state(broker: str, row: tuple[Any, ...]) -> BrokerState:
    """Inverse of `broker_row`."""
    own, numbers = dict(zip(_OWN, row, strict=False)), row[len(_OWN) :]
    cpu, memory, direct, inbound, outbound = (Resource(numbers[i], numbers[i + 1]) for i in range(0, 10, 2))
    figures = Figures(cpu, memory, direct, inbound, outbound, Traffic(*numbers[10:14]), *numbers[14:18])
    return BrokerState(broker=broker, figures=figures, memory=BrokerMemory(*numbers[18:24]), table=TableSummary(*numbers[24:]), **own)
