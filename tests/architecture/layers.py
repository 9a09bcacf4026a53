"""Reads the imports of a source tree and says which of them cross the layers.

pulsar_rebalancer.lab → watch → doctor → cli → serve → decisions, settings → streaming → sinks →
strategies. The command line names the modules of rooms above it as text, and imports one when its
command is called: `ELSEWHERE` and `laboratory` of `pulsar_rebalancer/cli/main.py`. In the
laboratory, simulation imports strategies only; libraries only where they are declared and needed.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from scripts.packages import normalised

#: The top-level packages of the product.
PACKAGES = ("pulsar_rebalancer", "sinks", "strategies", "streaming")

_CORE = frozenset({"streaming", "sinks", "strategies"})
_APPLICATION = "pulsar_rebalancer"
_CLI = f"{_APPLICATION}.cli"
_DECISIONS = f"{_APPLICATION}.decisions"
_DOCTOR = f"{_APPLICATION}.doctor"
_SERVE = f"{_APPLICATION}.serve"
_SETTINGS = f"{_APPLICATION}.settings"
_WATCH = f"{_APPLICATION}.watch"
LAB = f"{_APPLICATION}.lab"
_SIMULATION = f"{LAB}.simulation"
_CONFORMANCE = f"{LAB}.conformance"
#: What the laboratory computes, and what prints it.
_LAB_BASE = _CORE | {LAB, _DECISIONS, _SETTINGS, _SIMULATION}
_LAB_SCREENS = frozenset({f"{LAB}.command_options", f"{LAB}.demo", f"{LAB}.command_runs"})
_LAB_TOP = _LAB_BASE | _LAB_SCREENS | {_CLI, _CONFORMANCE}

#: Layer → the layers it may import, itself included. A module belongs to the layer with the longest
#: matching name.
LAYERS: Mapping[str, frozenset[str]] = {
    "strategies": frozenset({"strategies"}),
    "sinks": frozenset({"sinks", "strategies"}),
    "streaming": _CORE,
    _SETTINGS: _CORE | {_SETTINGS},
    _DECISIONS: frozenset({"sinks", "strategies", _DECISIONS}),
    _SERVE: _CORE | {_DECISIONS, _SERVE, _SETTINGS},
    _CLI: _CORE | {_CLI, _DECISIONS, _SERVE, _SETTINGS},
    _DOCTOR: _CORE | {_CLI, _DECISIONS, _DOCTOR, _SETTINGS},
    _WATCH: _CORE | {_CLI, _DECISIONS, _DOCTOR, _SETTINGS, _WATCH},
    _SIMULATION: frozenset({_SIMULATION, "strategies"}),
    _CONFORMANCE: frozenset({_CONFORMANCE, _SIMULATION, "strategies"}),
    LAB: _LAB_BASE,
    **dict.fromkeys(sorted(_LAB_SCREENS), _LAB_TOP),
    _APPLICATION: frozenset({_CLI}),
}

#: Only commands and their tables format output for a terminal; the other layers return data.
TERMINAL = frozenset({"typer", "rich"})
FOR_TERMINALS = _LAB_SCREENS | {_CLI, _DOCTOR, _WATCH}
PRINTS_NOTHING = frozenset({_CONFORMANCE, _DECISIONS, LAB, _SERVE, _SETTINGS, _SIMULATION})

#: Extra → the packages that may use it; ruff sees that those of `report` are imported inside
#: functions, so that everything else works without them.
EXTRAS: Mapping[str, frozenset[str]] = {
    "spark": frozenset({"streaming"}),
    "report": frozenset({LAB, "sinks"}),
    "serve": frozenset({_SERVE}),
}
COMPANIONS = {"pyspark": "py4j", "pydantic": "pydantic-core"}

#: The deciding part sees no clock, no randomness, no environment, no files, no network and writes
#: no logs.
# fmt: off
IMPURE = frozenset({
    "asyncio", "builtins", "concurrent", "glob", "http", "importlib", "io", "logging",
    "multiprocessing", "os", "pathlib", "queue", "random", "secrets", "select", "selectors",
    "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading",
    "time", "urllib", "uuid", "warnings",
})
# fmt: on
#: This module of `strategies` may import the modules that the registries name.
IMPORTS_ENTRIES = "registry.py"
IMPURE_CALLS = frozenset(
    {"open", "print", "input", "eval", "exec", "hash", "id", "breakpoint", "__import__"}
)

#: In these packages a shedding rule is known by the name in the settings only; the registry makes
#: it.
UNAWARE_OF_STRATEGIES = frozenset({"streaming", "sinks"})
STRATEGY_KINDS = frozenset({"shedding", "placement", "filters", "splitting", "dispatch_limits"})
OPEN_TO_ALL = frozenset({"registry", "contract"})


@dataclass(frozen=True, slots=True)
class Import:
    """One import of `name` (dotted, as far as it is written) in `file` at `line`."""

    file: Path
    line: int
    name: str

    @property
    def root(self) -> str:
        return self.name.partition(".")[0]


def violations(root: Path) -> list[str]:
    """One line per forbidden import or call in the packages below `root`, empty when the layers
    hold.
    """
    found: list[str] = []
    for package in PACKAGES:
        for file in modules(root / package):
            tree, place = parsed(file), file.relative_to(root)
            layer = layer_of(".".join(place.with_suffix("").parts))
            found += [
                f"{place}:{line}: {text}"
                for line, text in sorted(module_violations(root, layer, file, tree))
            ]
    return found


def is_of_laboratory(name: str) -> bool:
    """Whether a module or layer belongs to the laboratory."""
    return f"{name}.".startswith(f"{LAB}.")


def layer_of(name: str) -> str:
    """The layer of a module or package with this dotted name, the top-level package where no layer
    is named.
    """
    parts = name.split(".")
    heads = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((head for head in heads if head in LAYERS), parts[0])


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a module, for everybody who only looks at it."""
    return ast.parse(file.read_text("utf-8"), str(file))


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module: a walk takes longer than the parsing, and several checks look at each
    node.
    """
    return tuple(ast.walk(tree))


def modules(folder: Path) -> list[Path]:
    """All Python files below `folder`, in order of name."""
    return sorted(folder.rglob("*.py"))


def module_violations(
    root: Path, package: str, file: Path, tree: ast.Module
) -> Iterator[tuple[int, str]]:
    libraries = allowed_libraries(root, package)
    for item in imports(file, tree):
        reason = forbidden(package, item, libraries)
        if reason:
            yield item.line, reason
    for line, name in calls(tree):
        if package == "strategies" and name in IMPURE_CALLS:
            yield line, f"strategies is pure: no call of {name}()"
        elif package in PRINTS_NOTHING and name == "print":
            yield line, f"{package} prints nothing: return what the command line prints"


def forbidden(package: str, item: Import, libraries: frozenset[str]) -> str | None:
    """Why `package` must not import `item`, or None. `libraries`: roots of the third-party packages
    that it may use.
    """
    if item.root in PACKAGES:
        return forbidden_inside(package, item)
    if item.root in sys.stdlib_module_names:
        impure = (
            package == "strategies"
            and item.root in IMPURE
            and not (item.root == "importlib" and item.file.name == IMPORTS_ENTRIES)
        )
        return f"strategies is pure: no {item.root}" if impure else None
    if item.root not in libraries:
        return (
            f"{package} must not import {item.root} (see tests/architecture/layers.py and the "
            "dependencies in pyproject.toml)"
        )
    if item.root in TERMINAL and package not in FOR_TERMINALS:
        return f"{package} must not import {item.root}: commands and their tables format output"
    if item.name.startswith("numpy.random"):
        return "randomness arrives as data: no numpy.random"
    return None


def forbidden_inside(package: str, item: Import) -> str | None:
    layer = layer_of(item.name)
    if layer not in LAYERS[package]:
        return f"{package} must not import {layer}"
    match item.name.split("."):
        case ["strategies", kind, module, *_] if kind in STRATEGY_KINDS:
            if package in UNAWARE_OF_STRATEGIES and module not in OPEN_TO_ALL:
                return f"{package} names no concrete strategy ({item.name}): ask the registry"
    return None


@cache
def allowed_libraries(root: Path, package: str) -> frozenset[str]:
    """Import names of the third-party packages `package` may use, from the dependencies that
    `root`/pyproject.toml declares.
    """
    if package == "strategies":
        return frozenset({"numpy"})
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra, packages in EXTRAS.items():
        lines += project["optional-dependencies"][extra] if package in packages else ()
    declared = {distribution(line) for line in lines}
    # They come with a declared one.
    declared |= {COMPANIONS[name] for name in declared & COMPANIONS.keys()}
    return frozenset(
        name
        for name, found in packages_distributions().items()
        if declared & {*map(normalised, found)}
    )


def distribution(requirement: str) -> str:
    """'Kafka_Python>=2; python_version < "4"' → 'kafka-python'."""
    return normalised(re.split(r"[\[<>=!~; ]", requirement)[0])


def imports(file: Path, tree: ast.Module) -> Iterator[Import]:
    """Every import statement of a module, and every import_module("…") whose name is written
    out.
    """
    for node in nodes(tree):
        for name in imported_names(node):
            yield Import(file, getattr(node, "lineno", 0), name)


def imported_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [f"{module}.{alias.name}" for alias in names]
        case ast.ImportFrom():
            return ["a relative import"]  # no package has that name, so it is refused
        case ast.Call(
            func=ast.Name(id=function) | ast.Attribute(attr=function),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name] if function in ("import_module", "__import__") else []
    return []


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every call of a bare name."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id
