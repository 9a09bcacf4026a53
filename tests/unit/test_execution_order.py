"""The order in which Pulsar carries out what a shedder picked: brokers as its multimap has them,
bundles as they were picked.
"""

from __future__ import annotations

from strategies.cluster.memory import Memory
from strategies.cluster.model import Decision
from strategies.shedding.relief import as_executed


def order(*picked: str, memory: Memory | None = None) -> tuple[list[str], Memory]:
    """Bundles by name; the broker is what stands before the hyphen."""
    decisions = [
        Decision(name, f"{name.partition('-')[0]}:1", None, "code", "text") for name in picked
    ]
    executed, memory = as_executed(decisions, memory or Memory(), "table")
    return [decision.bundle for decision in executed], memory


def test_brokers_come_in_the_order_of_the_multimap_however_they_were_picked() -> None:
    expected = ["b3-1", "b3-2", "b2-1", "b1-1", "b1-2"]
    assert order("b1-1", "b1-2", "b2-1", "b3-1", "b3-2")[0] == expected
    assert order("b3-1", "b1-1", "b2-1", "b1-2", "b3-2")[0] == expected


def test_the_multimap_grows_with_the_brokers_and_never_shrinks() -> None:
    many = [f"b{number}-1" for number in range(13)]
    _, grown = order(*many)
    assert grown.cluster.table_sizes["table"] == 32
    assert order("b1-1", memory=grown)[1] == grown
    assert "table" not in order("b1-1")[1].cluster.table_sizes
