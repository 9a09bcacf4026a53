"""House rules that a program can check: what files are called, how long they get, where sentences
stand, how edges are swapped.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.architecture.layers import PACKAGES, modules, nodes, parsed

ROOT = Path(__file__).parents[2]
PACKAGE_MODULES = [file for package in PACKAGES for file in modules(ROOT / package)]
ALL_MODULES = PACKAGE_MODULES + [
    file
    for folder in ("tests", "benchmarks", "examples", "scripts", "tools")
    for file in modules(ROOT / folder)
]

#: Lines of a module, and of a function with its signature.
LONGEST_MODULE, LONGEST_FUNCTION = 400, 60
#: Of tests, tools and benchmarks.
LONGEST_TEST_MODULE, LONGEST_TEST_FUNCTION = 480, 75
#: A file with such a name collects what nobody could name.
NAMES_THAT_SAY_NOTHING = {
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "common",
}


def test_file_names_say_what_is_inside() -> None:
    vague = [
        name(file)
        for file in ALL_MODULES
        if NAMES_THAT_SAY_NOTHING & set(file.stem.lower().split("_"))
    ]
    assert vague == []


@pytest.mark.heavy
def test_nothing_goes_through_a_set_in_its_order() -> None:
    """It differs from process to process; the same input must give the same bytes in all."""
    unordered = [
        f"{name(file)}:{line}"
        for file in PACKAGE_MODULES
        for line in sorted(lines_that_go_through_a_set(parsed(file)))
    ]
    assert unordered == []


def test_no_module_is_two_modules() -> None:
    too_long = {
        name(file): lines
        for limit, files in ((LONGEST_MODULE, PACKAGE_MODULES), (LONGEST_TEST_MODULE, ALL_MODULES))
        for file in files
        if (lines := len(file.read_text("utf-8").splitlines())) > limit
    }
    assert too_long == {}


@pytest.mark.heavy
def test_no_function_is_two_functions() -> None:
    too_long = [
        f"{name(file)}:{node.lineno}: {node.name}"
        for limit, files in (
            (LONGEST_FUNCTION, PACKAGE_MODULES),
            (LONGEST_TEST_FUNCTION, ALL_MODULES),
        )
        for file in files
        for node in functions(parsed(file))
        if (node.end_lineno or 0) - node.lineno >= limit
    ]
    assert too_long == []


def test_a_module_opens_with_the_sentence_that_says_what_it_is_for() -> None:
    silent = [
        name(file) for file in ALL_MODULES if not opens_with_a_sentence(file.read_text("utf-8"))
    ]
    assert silent == []


def test_public_names_of_the_packages_are_documented() -> None:
    undocumented = [
        f"{name(file)}:{node.lineno}: {node.name}"
        for file in PACKAGE_MODULES
        for node in parsed(file).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert undocumented == []


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_what_a_package_exports_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [
        exported for exported in getattr(module, "__all__", []) if not hasattr(module, exported)
    ] == []


def test_tests_swap_edges_through_arguments() -> None:
    """No monkeypatching: what a test replaces can be replaced by a caller too."""
    patching = [
        f"{name(file)}:{node.lineno}"
        for folder in ("tests", "tools")
        for file in modules(ROOT / folder)
        if re.search("monkeypatch|mocker|unittest", file.read_text("utf-8"))
        for node in ast.walk(parsed(file))
        if (isinstance(node, ast.arg) and node.arg in ("monkeypatch", "mocker"))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unittest"))
        or (
            isinstance(node, ast.Import)
            and any(alias.name.startswith("unittest") for alias in node.names)
        )
    ]
    assert patching == []


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions, also those in classes, blocks and functions. Expressions, most of a tree, hold
    none and are passed over.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from functions(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def lines_that_go_through_a_set(tree: ast.Module) -> set[int]:
    """As far as one expression shows it, and where the order can make a difference."""
    found = set()
    fine = {
        id(given)
        for node in nodes(tree)
        if calls(node, "sorted", "set", "frozenset", "any", "all", "min", "max")
        for given in node.args
    }
    for node in nodes(tree):
        ways: list[ast.expr] = []
        if isinstance(node, ast.For):
            ways = [node.iter]
        elif (
            isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp)
            and id(node) not in fine
        ):
            ways = [part.iter for part in node.generators]
        elif calls(node, "list", "tuple", "sum", "fsum", "enumerate", "zip"):
            ways = node.args
        found |= {way.lineno for way in ways if is_set(way)}
    return found


def is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.BitAnd | ast.BitOr | ast.Sub | ast.BitXor
    ):
        return any(is_set(part) or is_keys(part) for part in (node.left, node.right))
    return isinstance(node, ast.Set | ast.SetComp) or calls(node, "set", "frozenset")


def is_keys(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "keys"
    )


def calls(node: ast.AST, *functions: str) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    )


def opens_with_a_sentence(code: str) -> bool:
    """Whether an empty module or one whose docstring, the first thing after comments, opens with a
    whole sentence.
    """
    found = re.match(r'(?:\s|#[^\n]*)*"""(.+?)(?:\n\n|""")', code, re.DOTALL)
    return not code.strip() or (found is not None and bool(re.search(r"[.:?!]$", found[1].strip())))


#: The modules that write to standard output or error. All others use these, which print text of
#: records without escape sequences and line breaks (tests/unit/test_text_of_records.py).
_WRITERS = {
    "pulsar_rebalancer/cli/lines.py",
    "pulsar_rebalancer/cli/console.py",
    "sinks/recordings/recorder.py",
    "streaming/worker_process.py",
}


def test_text_leaves_at_few_places() -> None:
    writers = {
        str(file.relative_to(ROOT)) for file in PACKAGE_MODULES if list(writes(parsed(file)))
    }
    assert writers == _WRITERS


def writes(tree: ast.AST) -> Iterator[int]:
    """Lines that call `print`, or `write` of a standard stream."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "print",
            "sys.stdout.write",
            "sys.stderr.write",
            "typer.secho",
        ):
            yield node.lineno
