"""Paths of values in a record: as the decoder names them, and as messages show them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sinks.wire.names_and_times import quoted

_PLACE = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
#: A path shows this many steps at its beginning and at its end.
_SHOWN_STEPS = 8
Steps = Sequence[str | int]


def leaves(tree: Any) -> Iterator[tuple[Steps, Any, bool]]:
    """All values without children (empty arrays and objects too), depth first in the order of the
    record; without recursion.

    Each comes with its path, valid until the next value is taken, and whether a new key on that
    path has an unpaired surrogate.
    """
    steps: list[str | int] = []
    waiting: list[Iterator[tuple[Any, Any]]] = [iter([("", tree)])]
    halved = False
    while waiting:
        for step, node in waiting[-1]:
            if len(waiting) > 1:
                steps.append(step)
                halved = halved or (
                    isinstance(step, str)
                    and not step.isascii()
                    and HALF_A_CHARACTER.search(step) is not None
                )
            if isinstance(node, (dict, list)) and node:
                waiting.append(iter(node.items() if isinstance(node, dict) else enumerate(node)))
                break
            yield steps, node, halved
            halved = False
            del steps[-1:]
        else:
            waiting.pop()
            del steps[-1:]


def steps_in(message: str) -> Steps:
    """The path in a message of the decoder; empty if it names none."""
    place = _PLACE.search(message)
    if place is None:
        return ()
    return tuple(
        name or (index if index == "..." else int(index)) for name, index in _STEP.findall(place[1])
    )


def value_at(tree: Any, steps: Steps) -> Any:
    """The value at the end of a path."""
    for step in steps:
        tree = tree[step]
    return tree


def path_of(steps: Steps) -> str:
    """The path as messages show it, shortened in the middle."""
    if len(steps) > 2 * _SHOWN_STEPS:
        return f"{path_of(steps[:_SHOWN_STEPS])}…{path_of(steps[-_SHOWN_STEPS:])[1:]}"
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return (
        f".{step}"
        if step.isidentifier() and step.isascii() and len(step) <= 80
        else f"[{quoted(step)}]"
    )
