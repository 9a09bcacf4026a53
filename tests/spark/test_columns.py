"""The typed columns of a broker hold everything that is known of it."""

from __future__ import annotations

from dataclasses import fields

from strategies.model import BrokerMemory, Figures, Resource, Traffic
from strategies.store import BrokerState
from strategies.table_summary import TableSummary
from streaming.columns import BROKER_VALUE, broker_row, broker_state


def a_broker(memory: BrokerMemory) -> BrokerState:
    resources = [Resource(1.5 * i, 100.0 + i) for i in range(5)]
    figures = Figures(*resources, Traffic(1.0, 2.0, 3.0, 4.0), 64, 0.5, 7.0, 13)  # type: ignore[arg-type, call-arg]
    table = TableSummary(1.5, 2.5, 3, 4, 5, 6.5, 7.5)
    return BrokerState("b:1", 3, 10, 2, 11, 12, 3, 14, "digest", "of bundles", figures, memory, table)


def test_a_broker_comes_back_as_it_was() -> None:
    for memory in (BrokerMemory(), BrokerMemory(0.25, 0.5, 3, 0, 1e6, 12)):
        broker = a_broker(memory)
        assert broker_state("b:1", broker_row(broker)) == broker


def test_every_value_has_a_column_of_its_name() -> None:
    assert len(broker_row(a_broker(BrokerMemory()))) == len(BROKER_VALUE)
    own = [field.name for field in fields(BrokerState) if field.name not in ("broker", "figures", "memory", "table")]
    assert BROKER_VALUE.names[: len(own)] == ["joined" if name == "order" else name for name in own]
    rest = [field.name for field in fields(BrokerMemory)] + [f"table_{field.name}" for field in fields(TableSummary)]
    assert BROKER_VALUE.names[-len(rest) :] == rest


def test_numbers_that_lost_their_point_are_kept_as_doubles() -> None:
    """A usage of 5 must read 5.0 after a restart too, or the bytes of a round would differ."""
    broker = BrokerState("b:1", 0, 1, 1, 1, 1, 1, 1, "", "", Figures(cpu=Resource(5, 100)))
    assert [type(value) for value in broker_row(broker)[9:11]] == [float, float]
