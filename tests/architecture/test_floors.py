"""No rooms of a package, the folders and modules at its top, reach each other in a circle, and
imports of `strategies` go down only.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES, Import, imports, modules, parsed

#: The rooms of `strategies`, from the top down: each may import those below it.
FLOORS = (
    "fold",
    "round",
    "executor",
    "roll",
    "placement",
    "shedding",
    "dispatch_limits",
    "splitting",
    "averages",
    "patterns_and_windows",
    "figures",
    "cluster",
    "filters",
    "registry",
    "java",
    "bundles",
    "states_and_advice_of_codes",
    "ordered_sum",
    "settings",
    "errors",
)


@pytest.mark.parametrize("package", [*PACKAGES, "pulsar_rebalancer/lab"])
def test_no_rooms_reach_each_other(package: str) -> None:
    below = defaultdict[str, set[str]](set)
    for source, target, _ in between_rooms(package):
        below[source].add(target)
    TopologicalSorter(below).prepare()  # raises CycleError with the rooms of a circle


def test_imports_of_strategies_go_down() -> None:
    height = {room: number for number, room in enumerate(reversed(FLOORS))}
    assert [
        f"{item.file.relative_to(ROOT)}:{item.line}: {source} is not above {target}: {item.name}"
        for source, target, item in between_rooms("strategies")
        if height.get(source, -1) <= height.get(target, len(FLOORS))
    ] == []


def test_every_room_of_strategies_has_a_floor() -> None:
    files = (file.relative_to(ROOT / "strategies") for file in modules(ROOT / "strategies"))
    rooms = {file.parts[0].removesuffix(".py") for file in files} - {"__init__"}
    assert rooms == set(FLOORS)
    assert len(FLOORS) <= 20


def test_the_page_lists_the_floors_from_the_top_down() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    table = page.partition("| floor of `strategies/` |")[2].partition("\n\n")[0]
    heads = [row.split("|")[1] for row in table.splitlines()[2:]]

    assert [name for head in heads for name in re.findall(r"`(\w+)", head)] == list(FLOORS)


def between_rooms(package: str) -> Iterator[tuple[str, str, Import]]:
    """Every import from one room of a package to another: also inside functions, and for type
    checkers only.
    """
    head = f"{package.replace('/', '.')}."
    for file in modules(ROOT / package):
        source = file.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for item in imports(file, parsed(file)):
            target = item.name.removeprefix(head).partition(".")[0]
            if item.name.startswith(head) and target != source:
                yield source, target, item
