"""The layers hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.layers import (
    LAYERS,
    PACKAGES,
    calls,
    is_of_laboratory,
    modules,
    nodes,
    parsed,
    violations,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.heavy
def test_no_import_crosses_the_layers() -> None:
    assert violations(ROOT) == []


def test_every_package_is_there_to_be_read() -> None:
    assert [package for package in LAYERS if not modules(ROOT.joinpath(*package.split(".")))] == []


def test_the_laboratory_is_loaded_by_a_command_that_is_called_and_nothing_else() -> None:
    """Its commands are in the table of the command line as text, an error says that it is not
    installed, and `watch --demo` asks for the modelled cluster.
    """
    asking = [
        str(file.relative_to(ROOT))
        for file in modules(ROOT / "pulsar_rebalancer")
        if "laboratory" in {name for _, name in calls(parsed(file))}
    ]
    naming = [
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in modules(ROOT / package)
        if not is_of_laboratory(".".join(file.relative_to(ROOT).parts))
        and any(word.startswith("pulsar_rebalancer.lab") for _, word in words(parsed(file)))
    ]

    assert asking == ["pulsar_rebalancer/watch/watch_loop.py"]
    assert naming == ["pulsar_rebalancer/cli/errors.py", "pulsar_rebalancer/cli/main.py"]


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string and identifier of a module."""
    for node in nodes(tree):
        match node:
            case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.Attribute(attr=text):
                yield node.lineno, text
