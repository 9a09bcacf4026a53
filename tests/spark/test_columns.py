"""The typed columns of a broker hold everything that is known of it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from strategies.model import BrokerMemory, Figures, Resource, Traffic
from strategies.store import BrokerState
from strategies.table_summary import TableSummary
from streaming.columns import PARTS, STATE_VALUE, VALUES, brokers_of, brokers_row, part_of, row_of


def a_broker(memory: BrokerMemory) -> BrokerState:
    resources = [Resource(1.5 * i, 100.0 + i) for i in range(5)]
    figures = Figures(*resources, Traffic(1.0, 2.0, 3.0, 4.0), 64, 0.5, 7.0, 13)  # type: ignore[arg-type, call-arg]
    table = TableSummary(1.5, 2.5, 3, 4, 5, 6.5, 7.5)
    return BrokerState("b:1", 3, 10, 2, 11, 12, 3, 14, "digest", "of bundles", figures, memory, table)


def test_brokers_come_back_as_they_were() -> None:
    memories = [BrokerMemory(), BrokerMemory(0.25, 0.5, 3, 0, 1e6, 12)]
    for some in ([], memories[:1], memories[1:], memories):
        brokers = {f"b:{number}": replace(a_broker(memory), broker=f"b:{number}") for number, memory in enumerate(some)}
        assert brokers_of(brokers_row(brokers)) == brokers


def test_those_that_are_gone_stand_beside() -> None:
    entry = {"b:1": a_broker(BrokerMemory()), "b:2": None}
    assert brokers_row(entry)[-1] == ["b:2"]
    assert brokers_of(brokers_row(entry)) == entry
    assert brokers_of(brokers_row({"b:2": None})) == {"b:2": None}


def test_every_value_of_a_broker_has_its_place_in_a_column() -> None:
    row = brokers_row({"b:1": a_broker(BrokerMemory(1.0, 1.0, 1, 1, 1.0, 1))})
    assert [len(column) for column in row] == [*map(len, VALUES.values()), 0]
    assert set(STATE_VALUE.names) == {name for names in PARTS.values() for name in names}
    named = sorted(path for paths in VALUES.values() for path in paths)
    assert named == sorted(leaves(a_broker(BrokerMemory())))


def leaves(value: Any, path: str = "") -> list[str]:
    if not is_dataclass(value):
        return [path]
    return [leaf for field in fields(value) for leaf in leaves(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))]


def test_what_no_broker_has_takes_no_room() -> None:
    row = dict(zip(PARTS["brokers"], brokers_row({"b:1": a_broker(BrokerMemory(ewma=0.5))}), strict=True))
    assert row["optional_numbers"][2] == 0.5
    bare = {"b:1": replace(a_broker(BrokerMemory()), figures=Figures())}
    assert brokers_row(bare)[4:6] == (None, None)
    assert brokers_of(brokers_row(bare)) == bare


def test_numbers_that_lost_their_point_are_kept_as_doubles() -> None:
    """A usage of 5 must read 5.0 after a restart too, or the bytes of a round would differ."""
    broker = BrokerState("b:1", 0, 1, 1, 1, 1, 1, 1, "", "", Figures(cpu=Resource(5, 100)))
    row = dict(zip(PARTS["brokers"], brokers_row({"b:1": broker}), strict=True))
    assert isinstance(row["numbers"][0], float)
    assert str(brokers_of(tuple(row.values()))["b:1"]) == str(replace(broker, figures=Figures(cpu=Resource(5.0, 100.0))))


def test_parts_of_the_state_lie_in_one_row_without_touching_each_other() -> None:
    for part, names in PARTS.items():
        row = row_of(part, names)
        assert part_of(part, row) == names
        assert [value for value in row if value is not None] == [name for name in STATE_VALUE.names if name in names]
