"""Rules that the code of a module shows: each finds lines, and says in which files they may be.

What decides, simulates or measures calculates the same with every interpreter and on every
processor (docs/ARCHITECTURE.md, "Byte for byte"). Topics are parsed at the edges, rules take their
mode at construction, text leaves at few places, tests swap edges through arguments.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES, modules, nodes, parsed

CALCULATING = ("strategies", "pulsar_rebalancer")
Lines = Iterator[int]


def sums_of_figures(tree: ast.Module) -> Lines:
    """`sum`, which compensates the rounding of floats since Python 3.12, of anything but counts."""
    counted = set()
    for node in nodes(tree):
        match node:
            case ast.Call(args=[ast.GeneratorExp(elt=element)]) if counts(element):
                counted.add(id(node.func))
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id == "sum" and id(node) not in counted:
            yield node.lineno


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


def unstable_orders(tree: ast.Module) -> Lines:
    """`argsort` that leaves the order of equal values to the processor."""
    for node in nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="argsort"), keywords=given):
                if "kind" not in {one.arg for one in given}:
                    yield node.lineno


def powers(tree: ast.Module) -> Lines:
    """A square by `**`, whose last bit is the C library's: a product has only one result."""
    for node in nodes(tree):
        match node:
            case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant()):
                if not isinstance(base, ast.Constant):
                    yield node.lineno


def ways_through_a_set(tree: ast.Module) -> Lines:
    """Its order differs from process to process. As far as one expression shows it, and where the
    order can make a difference.
    """
    fine = {
        id(given)
        for node in nodes(tree)
        if calls(node, "sorted", "set", "frozenset", "any", "all", "min", "max")
        for given in node.args
    }
    for node in nodes(tree):
        ways: list[ast.expr] = []
        match node:
            case ast.For(iter=way):
                ways = [way]
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp() if id(node) not in fine:
                ways = [part.iter for part in node.generators]
            case _ if calls(node, "list", "tuple", "sum", "fsum", "enumerate", "zip"):
                ways = node.args
        yield from (way.lineno for way in ways if is_set(way))


def is_set(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.Sub() | ast.BitXor(), right):
            return any(is_set(part) or is_keys(part) for part in (left, right))
    return isinstance(node, ast.Set | ast.SetComp) or calls(node, "set", "frozenset")


def is_keys(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="keys")):
            return True
    return False


def calls(node: ast.AST, *functions: str) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions
    )


def parsings_of_topics(tree: ast.Module) -> Lines:
    """`parse_topic`, called or passed on."""
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id == "parse_topic":
            yield node.lineno


def questions_for_the_mode(tree: ast.Module) -> Lines:
    """Comparisons of a mode with a constant."""
    for node in nodes(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
            case ast.Match(subject=subject):
                sides = [subject]
            case _:
                continue
        for side in sides:
            name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
            if name.lstrip("_") == "mode":
                yield side.lineno


def writings(tree: ast.Module) -> Lines:
    """Calls of `print`, or of `write` of a standard stream."""
    writers = ("print", "sys.stdout.write", "sys.stderr.write", "typer.secho")
    for node in nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in writers:
            yield node.lineno


def patchings(tree: ast.Module) -> Lines:
    """What a test replaces can be replaced by a caller too."""
    for node in nodes(tree):
        match node:
            case ast.arg(arg="monkeypatch" | "mocker", lineno=line):
                yield line
            case ast.ImportFrom(module=str(name)) | ast.Import(names=[ast.alias(name=name)]):
                if name.startswith("unittest"):
                    yield node.lineno


def dangerous_calls(tree: ast.Module) -> Lines:
    """They can freeze a broker of any load manager (docs/PULSAR_FAULTS.md)."""
    for node in nodes(tree):
        match node:
            case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.Attribute(attr=text):
                if any(one in text for one in ("ownedNamespaces", "owned_namespaces", "?bundle=")):
                    yield node.lineno


#: Rule, the folders that it is for, and file → number of lines that it may find there.
RULES: tuple[tuple[Callable[[ast.Module], Lines], tuple[str, ...], Mapping[str, int]], ...] = (
    (sums_of_figures, CALCULATING, {}),
    (unstable_orders, CALCULATING, {}),
    (powers, CALCULATING, {}),
    (ways_through_a_set, PACKAGES, {}),
    (patchings, ("tests", "tools"), {}),
    (dangerous_calls, PACKAGES, {}),
    (
        parsings_of_topics,
        PACKAGES,
        {
            "pulsar_rebalancer/settings/merge_sources.py": 1,
            "pulsar_rebalancer/cli/commands/record.py": 1,
            "pulsar_rebalancer/lab/command_runs/replay.py": 1,
            "pulsar_rebalancer/decisions/log.py": 1,
            "streaming/large_records.py": 1,
        },
    ),
    # Entries of registries build the rule of a mode. The laboratory still asks for it while it
    # runs: its numbers may only fall.
    (
        questions_for_the_mode,
        PACKAGES,
        {
            "strategies/shedding/contract.py": 2,
            "strategies/placement/contract.py": 1,
            "pulsar_rebalancer/lab/backtest/quiet_round_finder.py": 1,
            "pulsar_rebalancer/lab/simulation/scenario_loop.py": 2,
        },
    ),
    # All others use these, which print text of records without escape sequences and line breaks
    # (tests/unit/test_text_of_records.py).
    (
        writings,
        PACKAGES,
        {
            "pulsar_rebalancer/cli/console.py": 1,
            "sinks/printable.py": 1,
            "streaming/worker_process.py": 1,
        },
    ),
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rule", "folders", "allowed"), RULES, ids=[rule.__name__ for rule, _, _ in RULES]
)
def test_only_the_named_files_have(
    rule: Callable[[ast.Module], Lines], folders: tuple[str, ...], allowed: Mapping[str, int]
) -> None:
    files = [file for folder in folders for file in modules(ROOT / folder)]
    found = {file.relative_to(ROOT).as_posix(): sorted(rule(parsed(file))) for file in files}
    assert {file: len(lines) for file, lines in found.items() if lines} == allowed, found


@pytest.mark.heavy
def test_no_class_shares_its_name() -> None:
    """But for a log line of the commands, and a line of a file topic."""
    places = defaultdict(list)
    for file in (one for package in PACKAGES for one in modules(ROOT / package)):
        for node in nodes(parsed(file)):
            if isinstance(node, ast.ClassDef) and node.name != "Line":
                places[node.name].append(file)
    assert [found for found in places.values() if len(found) > 1] == []
