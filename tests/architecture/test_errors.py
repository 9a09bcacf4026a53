"""The tree in `strategies/errors.py` is the tree that is there."""

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from strategies import errors
from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES, modules, parsed

ROOT_CLASS = "RebalancerError"
#: A line of the drawing: branches of four characters each, a class, and its module where that is
#: another one.
LINE = re.compile(r"^((?:[│ ]   )*(?:[├└]── )?)(\w+)(?: \(([\w.]+)\))?$")


@pytest.mark.heavy
def test_the_drawing_shows_every_error_where_it_is_defined() -> None:
    assert dict(drawn(str(errors.__doc__))) == defined()


def drawn(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Class → its base and its module, from the first line with the root to the next empty one."""
    above = ["Exception"]
    for line in text[text.index(ROOT_CLASS) :].split("\n\n", maxsplit=1)[0].splitlines():
        found = LINE.match(line)
        assert found is not None, line
        depth = len(found[1]) // 4
        yield found[2], (above[depth], found[3] or "strategies.errors")
        above = [*above[: depth + 1], found[2]]


def defined() -> Mapping[str, tuple[str, str]]:
    """Class → its base and its module, of the root and all that derive from it."""
    every = [
        (
            node.name,
            base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", ""),
            module,
        )
        for package in PACKAGES
        for file in modules(ROOT / package)
        if (module := ".".join(file.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef)
        for base in node.bases[:1]
    ]
    tree = {ROOT_CLASS}
    while more := {name for name, base, _ in every if base in tree} - tree:
        tree |= more
    found = [
        (name, base, module)
        for name, base, module in every
        if name in tree and (base in tree or name == ROOT_CLASS)
    ]
    return {name: (base, module) for name, base, module in found}
