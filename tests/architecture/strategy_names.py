"""Finds where a module names a strategy: its class, its settings, or its bare name where a strategy
is chosen, compared or listed. The same word elsewhere, such as the name of a field, is none.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from tests.architecture.layers import nodes

#: What stands beside the bare name of a strategy.
_BESIDE = re.compile(r"shedder|shedding|strategy|strategies|EngineSettings", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Words:
    """Texts of a module with their lines. `plain`: strings that are no docstrings, modules of
    imports and class names; `chosen`: strings where a strategy is chosen or compared; `listed`:
    the strings of each collection of several.
    """

    plain: list[tuple[int, str]]
    chosen: list[tuple[int, str]]
    listed: list[list[tuple[int, str]]]

    def naming(self, strategy: str, class_name: str, known: Collection[str]) -> list[int]:
        """The lines that name the strategy. `known`: the names of all strategies."""
        setting = re.compile(rf"shedding\.{strategy}\b")
        texts = [line for line, text in self.plain if class_name in text or setting.search(text)]
        tables = [
            one for one in self.listed if len(one) > 1 and all(text in known for _, text in one)
        ]
        bare = chain(self.chosen, *tables)
        return sorted({*texts, *(line for line, text in bare if text == strategy)})


def words_of(tree: ast.Module) -> Words:
    """The words of a module."""
    return Words(list(_plain(tree)), list(_chosen(tree)), list(_listed(tree)))


def _plain(tree: ast.Module) -> Iterator[tuple[int, str]]:
    docstrings = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text
            case ast.ImportFrom(module=str(text)):
                yield node.lineno, text
            case ast.Name(id=text) | ast.Attribute(attr=text) if text[:1].isupper():
                yield node.lineno, text


def _chosen(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes(tree):
        parts = _parts(node)
        if any(_BESIDE.search(one if isinstance(one, str) else _code(one)) for one in parts):
            for one in parts:
                yield from () if isinstance(one, str) else _strings(one)


def _parts(node: ast.AST) -> list[ast.expr | str]:
    """What stands side by side in a comparison, a look-up, a call or an assignment."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.Subscript(value=value, slice=index):
            return [value, index]
        case ast.Call(func=function, args=arguments):
            return [function, *arguments]
        case (
            ast.keyword(arg=str(name), value=value)
            | ast.Assign(targets=[ast.Name(id=name)], value=value)
        ):
            return [name, value]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [name, value]
    return []


def _code(one: ast.expr) -> str:
    """An expression as code, without its texts."""
    return "" if list(_strings(one)) else ast.unparse(one)


def _listed(tree: ast.Module) -> Iterator[list[tuple[int, str]]]:
    for node in nodes(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            yield list(_strings(node))


def _strings(one: ast.expr) -> Iterator[tuple[int, str]]:
    """A string, or the strings of a collection; those that are keys of a mapping."""
    match one:
        case ast.Constant(value=str(text)):
            yield one.lineno, text
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            yield from chain.from_iterable(map(_strings, elements))
        case ast.Dict(keys=keys):
            yield from chain.from_iterable(_strings(key) for key in keys if key is not None)
