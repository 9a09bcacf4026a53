"""No rooms of a package reach each other in a circle, and imports of `strategies` go down only."""

import re
from pathlib import Path

import pytest

from tests.architecture.floors import FLOORS, climbing, knots, rooms
from tests.architecture.layers import PACKAGES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("package", [*PACKAGES, "pulsar_rebalancer/lab"])
def test_no_rooms_reach_each_other(package: str) -> None:
    assert knots(ROOT, package) == []


def test_imports_of_strategies_go_down() -> None:
    assert climbing(ROOT) == []


def test_every_room_of_strategies_has_a_floor() -> None:
    assert rooms(ROOT, "strategies") == set(FLOORS)
    assert len(FLOORS) <= 20


def test_the_page_lists_the_floors_from_the_top_down() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    table = page.partition("| floor of `strategies/` |")[2].partition("\n\n")[0]
    heads = [row.split("|")[1] for row in table.splitlines()[2:]]

    assert [name for head in heads for name in re.findall(r"`(\w+)", head)] == list(FLOORS)
