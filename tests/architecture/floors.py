"""Reads the imports between the rooms of a package, the folders and modules at its top: which rooms
reach each other in a circle, and which import of `strategies` goes up.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.layers import Import, imports, modules, parsed

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
    "limits",
    "figures",
    "cluster",
    "filters",
    "registry",
    "java",
    "bundles",
    "reason_codes",
    "ordered_sum",
    "settings",
    "errors",
)


def rooms(root: Path, package: str) -> set[str]:
    """The names of the folders and modules with code at the top of a package."""
    files = (file.relative_to(root / package) for file in modules(root / package))
    return {file.parts[0].removesuffix(".py") for file in files} - {"__init__"}


def climbing(root: Path) -> list[str]:
    """One line per import of `strategies` that goes to a room which is not below its own."""
    height = {room: number for number, room in enumerate(reversed(FLOORS))}
    return [
        f"{item.file.relative_to(root)}:{item.line}: {source} is not above {target}: {item.name}"
        for source, target, item in between_rooms(root, "strategies")
        if height.get(source, -1) <= height.get(target, len(FLOORS))
    ]


def knots(root: Path, package: str) -> list[list[str]]:
    """The groups of rooms of a package that reach each other, by name."""
    below = defaultdict[str, set[str]](set)
    for source, target, _ in between_rooms(root, package):
        below[source].add(target)
    reached = {room: reached_from(room, below) for room in sorted(below)}
    circles = {
        room: sorted(one for one in there if room in reached.get(one, ()))
        for room, there in reached.items()
        if room in there
    }
    return [circle for room, circle in circles.items() if circle[0] == room]


def reached_from(room: str, below: Mapping[str, set[str]]) -> set[str]:
    """The rooms that a room imports, they import, and so on."""
    found, waiting = set[str](), [room]
    while waiting:
        news = below.get(waiting.pop(), set()) - found
        found |= news
        waiting += news
    return found


def between_rooms(root: Path, package: str) -> Iterator[tuple[str, str, Import]]:
    """Every import from one room of a package to another: also inside functions, and for type
    checkers only.
    """
    head = f"{package.replace('/', '.')}."
    for file in modules(root / package):
        source = file.relative_to(root / package).parts[0].removesuffix(".py")
        for item in imports(file, parsed(file)):
            target = item.name.removeprefix(head).partition(".")[0]
            if item.name.startswith(head) and target != source:
                yield source, target, item
