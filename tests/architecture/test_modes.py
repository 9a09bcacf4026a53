"""Rules take their mode at construction: a registry or a constructor chooses a class or a function
once.
"""

import ast

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import modules, parsed

PACKAGES = ("strategies", "sinks", "streaming", "pulsar_rebalancer")
#: Registry entries, which build the rule of a mode.
CHOICES = {"strategies/shedding/contract.py": 2, "strategies/placement/contract.py": 1}
#: Rules that still ask for their mode while they run, with the number of questions. A number may
#: only fall, a file may only leave.
ASKED = {
    "pulsar_rebalancer/lab/backtest/quiet_round_finder.py": 1,
    "pulsar_rebalancer/lab/simulation/run.py": 2,
}


@pytest.mark.heavy
def test_only_registries_ask_for_the_mode() -> None:
    asked = {file: count for file, count in comparisons().items() if count}

    assert asked == {**CHOICES, **ASKED}


def comparisons() -> dict[str, int]:
    """File → number of questions for the mode."""
    files = [file for package in PACKAGES for file in modules(ROOT / package)]
    return {file.relative_to(ROOT).as_posix(): questions(parsed(file)) for file in files}


def questions(tree: ast.AST) -> int:
    """Comparisons of a mode with a constant."""
    return sum(any(map(_is_mode, _sides(node))) for node in ast.walk(tree))


def _sides(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Match():
            return [node.subject]
    return []


def _is_mode(side: ast.expr) -> bool:
    name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
    return name.lstrip("_") == "mode"
