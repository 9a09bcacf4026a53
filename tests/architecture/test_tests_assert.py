"""No test passes because there was nothing to look at: one whose assertions are all in loops or
branches also asserts, outside of them, that there is something.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.layers import modules, parsed

ROOT = Path(__file__).parents[2]
#: Calls that fail a test by themselves.
FAILING = {"raises", "warns", "fail", "eventually"}
#: What passes on the items of its first argument, and of all arguments.
SAME_ITEMS = {"enumerate", "list", "tuple", "sorted", "reversed", "set", "items", "values", "keys"}


@pytest.mark.heavy
def test_no_test_asserts_only_in_loops_and_branches_that_may_be_empty() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in modules(ROOT / "tests")
        for line in lines_of_empty_loops(parsed(file))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("body", "may_be_empty"),
    [
        ("for row in rows():\n    assert row", True),
        ("if rows():\n    assert rows()", True),
        ("for row in rows():\n    check(row)", True),
        ("while rows():\n    assert rows()", True),
        ("found = rows()\nfor row in found:\n    assert row\nassert found", False),
        ("for row in (1, 2):\n    assert row", False),
        ("for row in ROWS:\n    assert row", False),
        ("for row in EMPTY:\n    assert row", True),
        ("for name, row in enumerate(ROWS):\n    assert row", False),
        ("for row in range(3):\n    with open(row):\n        assert row", False),
        ("with raises(ValueError):\n    rows()", False),
        ("with open() as file:\n    assert file", False),
        ("check(rows())", False),
    ],
)
def test_empty_loops_and_branches_are_found(body: str, may_be_empty: bool) -> None:
    text = "ROWS = (1, 2)\nEMPTY = ()\ndef check(row):\n    assert row\ndef test_it():\n"
    found = lines_of_empty_loops(ast.parse(text + textwrap.indent(body, "    ")))
    assert found == ([5] if may_be_empty else [])


def lines_of_empty_loops(module: ast.Module) -> list[int]:
    """Lines of the tests that have assertions, all of them in loops or branches that may be
    empty.
    A property may meet an empty example.
    """
    constants = _assigned(module.body)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    checks = FAILING | _checking(module) | _imported_checks(module)
    return [
        test.lineno
        for test in functions
        if test.name.startswith("test_")
        and not any(
            isinstance(one, ast.Call) and _name(one) == "given" for one in test.decorator_list
        )
        and not any(_sure(test.body, {**constants, **_assigned(test.body)}, checks))
        and any(_is_assertion(node, checks) for node in ast.walk(test))
    ]


def _checking(module: ast.Module) -> set[str]:
    """Functions that assert something whenever they are called."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    return {one.name for one in functions if any(_sure(one.body, {}, FAILING))}


def _imported_checks(module: ast.Module) -> set[str]:
    found = set[str]()
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            file = ROOT / f"{str(node.module).replace('.', '/')}.py"
            if file.exists():
                found |= {one.name for one in node.names} & _checking(parsed(file))
    return found


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def _sure(
    body: list[ast.stmt], constants: Mapping[str, ast.expr], checks: set[str]
) -> Iterator[bool]:
    """Whether each statement asserts something, whatever the test finds."""
    for node in body:
        match node:
            case ast.With():
                yield any(_is_assertion(item.context_expr, checks) for item in node.items)
                yield from _sure(node.body, constants, checks)
            case ast.Try():
                yield from _sure([*node.body, *node.orelse, *node.finalbody], constants, checks)
            case ast.For() if any(_is_assertion(one, checks) for one in ast.walk(node.iter)):
                yield True
            case ast.For() if _has_items(node.iter, constants):
                yield from _sure(node.body, constants, checks)
            case ast.If() if node.orelse:
                yield all(any(_sure(one, constants, checks)) for one in (node.body, node.orelse))
            case ast.Match():
                yield all(any(_sure(one.body, constants, checks)) for one in node.cases)
            case ast.For() | ast.While() | ast.If() | ast.FunctionDef() | ast.ClassDef():
                yield False
            case _:
                yield any(_is_assertion(one, checks) for one in ast.walk(node))


def _is_assertion(node: ast.AST, checks: set[str]) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _name(node) in checks)


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _has_items(node: ast.expr, constants: Mapping[str, ast.expr]) -> bool:
    """Whether a loop over this has a first turn, as far as the text of the module says."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            return any(not isinstance(item, ast.Starred) for item in node.elts)
        case ast.Dict(keys=found) | ast.Constant(value=found):
            return bool(found)
        case ast.Name():
            known = constants.get(node.id)  # names in capitals are imported, and tables there
            others = {name: one for name, one in constants.items() if name != node.id}
            return node.id.isupper() if known is None else _has_items(known, others)
        case ast.BinOp():
            return any(_has_items(one, constants) for one in (node.left, node.right))
        case ast.Call() if _name(node) == "range":
            return _has_items(node.args[min(1, len(node.args) - 1)], constants)
        case ast.Call() if _name(node) == "zip":
            every = any(
                isinstance(one.value, ast.Constant) and one.value.value for one in node.keywords
            )
            some = [_has_items(one, constants) for one in node.args]
            return any(some) if every else all(some)
        case ast.Call() if _name(node) in SAME_ITEMS:
            values = node.args or (
                [node.func.value] if isinstance(node.func, ast.Attribute) else []
            )
            return any(_has_items(one, constants) for one in values)
        case _:
            return False
