"""What decides, simulates or measures calculates the same with every interpreter and on every
processor, as far as its code shows it (docs/ARCHITECTURE.md, "Byte for byte").
"""

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import modules, nodes, parsed

FILES = [
    file for package in ("strategies", "pulsar_rebalancer") for file in modules(ROOT / package)
]
Rule = Callable[[ast.Module], Iterator[int]]


def sums_of_figures(tree: ast.Module) -> Iterator[int]:
    """Lines with `sum`, which compensates the rounding of floats since Python 3.12, for anything
    but a count.
    """
    counted = {id(node.func) for node in nodes(tree) if is_count(node)}
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id == "sum" and id(node) not in counted:
            yield node.lineno


def is_count(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a call gets a generator of whole numbers or truth values."""
    match node:
        case ast.Call(args=[ast.GeneratorExp(elt=element)]):
            return counts(element)
    return False


def counts(element: ast.expr) -> bool:
    """Whether an expression is a whole number or a truth value, whatever its names stand for."""
    match element:
        case ast.BoolOp(values=values):
            return all(map(counts, values))
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=int()):
            return True
        case ast.Call(func=ast.Name(id="bool" | "int" | "isinstance" | "len")):
            return True
    return False


def unstable_orders(tree: ast.Module) -> Iterator[int]:
    """Lines with an `argsort` that leaves the order of equal values to the processor."""
    for node in nodes(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "argsort"
            and not any(one.arg == "kind" for one in node.keywords)
        ):
            yield node.lineno


def powers(tree: ast.Module) -> Iterator[int]:
    """Lines with a square by `**`, whose last bit is the C library's: a product has only one
    result.
    """
    for node in nodes(tree):
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow)
            and not isinstance(node.left, ast.Constant)
            and isinstance(node.right, ast.Constant)
        ):
            yield node.lineno


@pytest.mark.parametrize("rule", [sums_of_figures, unstable_orders, powers])
def test_no_result_depends_on_what_calculates_it(rule: Rule) -> None:
    assert [
        f"{file.relative_to(ROOT)}:{line}" for file in FILES for line in rule(parsed(file))
    ] == []
