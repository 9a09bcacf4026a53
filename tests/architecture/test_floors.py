"""No rooms of a package reach each other in a circle, and imports of `strategies` go down only."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    "line",
    [
        "from strategies.round.round import run_round",
        "from strategies import round",
        "import strategies.round.round",
        "def later():\n    from strategies.round import round",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import strategies.round.round",
        "from strategies.attic import dust",
    ],
)
def test_an_import_that_goes_up_is_noticed(tmp_path: Path, line: str) -> None:
    write(tmp_path / "strategies" / "cluster" / "model.py", line)

    (found,) = climbing(tmp_path)
    assert found.startswith("strategies/cluster/model.py:")
    assert "cluster is not above " in found


def test_an_import_that_goes_down_or_stays_is_not_complained_about(tmp_path: Path) -> None:
    below = "from strategies.errors import ContractError\nfrom strategies.cluster.model import Skip"
    write(tmp_path / "strategies" / "cluster" / "packing.py", below)

    assert climbing(tmp_path) == []


def test_a_circle_of_rooms_is_noticed_however_they_import(tmp_path: Path) -> None:
    sinks = tmp_path / "sinks"
    write(sinks / "kitchen" / "stove.py", "from sinks.hall import door")
    write(sinks / "hall.py", "def later():\n    from sinks.cellar.shelf import jar")
    write(sinks / "cellar" / "shelf.py", "import sinks.kitchen.stove\nfrom sinks import roof")
    write(sinks / "roof.py", "import strategies.errors")

    assert knots(tmp_path, "sinks") == [["cellar", "hall", "kitchen"]]


def write(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'"""A module."""\n\n{line}\n', "utf-8")
