"""House rules about files: what they are called, how long they and their functions get, how they
open. Ruff holds the rules about names and docstrings, test_code.py those about what code does.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.layers import PACKAGES, modules, parsed

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


def opens_with_a_sentence(code: str) -> bool:
    """Whether an empty module or one whose docstring, the first thing after comments, opens with a
    whole sentence.
    """
    found = re.match(r'(?:\s|#[^\n]*)*"""(.+?)(?:\n\n|""")', code, re.DOTALL)
    return not code.strip() or (found is not None and bool(re.search(r"[.:?!]$", found[1].strip())))
