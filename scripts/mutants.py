"""Small faults of the core: all that a module has room for, and those that a seed draws."""

import ast
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

AREAS = {"strategies": 2, "sinks/executor": 1, "sinks/wire": 1, "streaming/state": 1}
_OPERATORS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_FUNCTIONS = {"sorted": "list", "min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """`span`: from where to where the text of the file is replaced by `new`; `function`: first line
    of the one it is in, or 0.
    """

    file: str
    line: int
    function: int
    kind: str
    span: tuple[int, int]
    old: str
    new: str


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Small faults in place of a node, each with the name of its kind."""
    new: Any = copy.deepcopy(node)
    match new:
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "dropped", ast.Pass()
        case ast.Return(value=ast.expr()) if not isinstance(new.value, ast.Constant):
            yield "returned", ast.Return(ast.Constant(None))
        case ast.If() | ast.IfExp() | ast.While():
            yield "condition", ast.UnaryOp(ast.Not(), new.test)
        case ast.expr():
            yield from _other_values(new)


def _other_values(new: Any) -> Iterator[tuple[str, ast.AST]]:
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in _OPERATORS:
            new.ops = [_OPERATORS[type(operator)]()]
            yield "comparison", new
        case ast.BinOp() | ast.BoolOp() if type(new.op) in _OPERATORS:
            new.op = _OPERATORS[type(new.op)]()
            yield "operator", new
        case ast.UnaryOp(op=ast.Not()):
            yield "condition", new.operand
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not new.value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            new.func = ast.Name(_FUNCTIONS[name])
            new.keywords = [] if name == "sorted" else new.keywords
            yield "function", new
        case ast.Call(args=[first, second, *rest]) if not any(
            isinstance(one, ast.Starred) for one in new.args
        ):
            new.args = [second, first, *rest]
            yield "arguments", new


def mutants(root: Path, file: str) -> list[Mutant]:
    """All of one module. Left out: annotations, decorators, assertions, and what only makes the
    text of a message.
    """
    text = (root / file).read_text("utf-8")
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []

    def visit(node: ast.AST, function: int) -> None:
        if isinstance(node, ast.JoinedStr | ast.Assert | ast.Raise):
            return
        if isinstance(node, ast.FunctionDef):
            function = min(node.lineno, *(one.lineno for one in node.decorator_list), node.lineno)
        for kind, new in changes(node):
            place: Any = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else node
            span = (
                starts[place.lineno - 1] + place.col_offset,
                starts[place.end_lineno - 1] + place.end_col_offset,
            )
            written = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            found.append(
                Mutant(
                    file,
                    place.lineno,
                    function,
                    kind,
                    span,
                    text.encode()[slice(*span)].decode(),
                    written,
                )
            )
        for name, field in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                for child in field if isinstance(field, list) else [field]:
                    if isinstance(child, ast.AST):
                        visit(child, function)

    visit(ast.parse(text), 0)
    return found


def drawn(root: Path, seed: int, count: int) -> list[Mutant]:
    """Spread over the areas by their weight, over the modules of an area, and over the kinds that a
    module has room for.
    """
    random_ = random.Random(seed)
    chosen: list[Mutant] = []
    for area, weight in AREAS.items():
        modules = [
            found
            for file in sorted((root / area).rglob("*.py"))
            if (found := mutants(root, str(file.relative_to(root))))
        ]
        random_.shuffle(modules)
        for number in range(round(count * weight / sum(AREAS.values()))):
            left = [one for one in modules[number % len(modules)] if one not in chosen]
            if left:
                kind = random_.choice(sorted({one.kind for one in left}))
                chosen.append(random_.choice([one for one in left if one.kind == kind]))
    return chosen


def line_of(mutant: Mutant) -> str:
    """The mutant on one line."""
    old, new = (" ".join(text.split()) for text in (mutant.old, mutant.new))
    return f"{mutant.file}:{mutant.line} [{mutant.kind}] {old} → {new}"
