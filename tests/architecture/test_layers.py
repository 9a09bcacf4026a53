"""The layers hold, and the check that says so notices when they do not."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from strategies.shedding.registry import SHEDDERS
from tests.architecture.layers import (
    LAYERS,
    PACKAGES,
    UNAWARE_OF_STRATEGIES,
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


@pytest.mark.parametrize(
    ("package", "line", "name"),
    [
        ("strategies", "import pyspark", "pyspark"),
        ("strategies", "import orjson", "orjson"),
        ("strategies", "from sinks.wire import codec", "sinks"),
        ("sinks", "from pyspark.sql import Row", "pyspark"),
        ("sinks", "from streaming import settings", "streaming"),
        ("sinks", "import importlib\nimportlib.import_module('streaming.job')", "streaming"),
        ("streaming", "import pulsar_rebalancer.cli", "pulsar_rebalancer.cli"),
        (
            "streaming",
            "def job():\n    from pulsar_rebalancer.lab.simulation import loop",
            "pulsar_rebalancer.lab.simulation",
        ),
        (
            "pulsar_rebalancer.settings",
            "from pulsar_rebalancer.decisions import plans",
            "pulsar_rebalancer.decisions",
        ),
        (
            "pulsar_rebalancer.decisions",
            "from pulsar_rebalancer.cli import console",
            "pulsar_rebalancer.cli",
        ),
        (
            "pulsar_rebalancer.decisions",
            "from pulsar_rebalancer import settings",
            "pulsar_rebalancer.settings",
        ),
        ("pulsar_rebalancer.cli", "def run():\n    import pyspark", "pyspark"),
        ("pulsar_rebalancer.cli", "import scipy", "scipy"),
        (
            "pulsar_rebalancer.cli",
            "from pulsar_rebalancer.doctor import finding",
            "pulsar_rebalancer.doctor",
        ),
        (
            "pulsar_rebalancer.cli",
            "import pulsar_rebalancer.watch.follow",
            "pulsar_rebalancer.watch",
        ),
        ("pulsar_rebalancer.decisions", "import starlette", "starlette"),
        ("pulsar_rebalancer.cli", "def serve():\n    import uvicorn", "uvicorn"),
        (
            "pulsar_rebalancer.serve",
            "from pulsar_rebalancer.cli import console",
            "pulsar_rebalancer.cli",
        ),
        ("pulsar_rebalancer.lab.simulation", "import streaming.job", "streaming"),
        ("pulsar_rebalancer.lab.simulation", "from sinks.wire import codec", "sinks"),
        (
            "pulsar_rebalancer.lab.conformance",
            "from pulsar_rebalancer.settings import load",
            "pulsar_rebalancer.settings",
        ),
        (
            "pulsar_rebalancer.lab",
            "from pulsar_rebalancer.cli import console",
            "pulsar_rebalancer.cli",
        ),
    ],
)
def test_a_forbidden_import_is_noticed(tmp_path: Path, package: str, line: str, name: str) -> None:
    (found,) = violations(project_of(package, line, tmp_path))

    assert found.startswith(f"{package.replace('.', '/')}/module.py:")
    assert f"{package} must not import {name}" in found


@pytest.mark.parametrize(
    "package",
    [
        *(layer for layer in LAYERS if not is_of_laboratory(layer)),
        "pulsar_rebalancer.cli.commands",
        "pulsar_rebalancer.room_of_tomorrow",
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        "from pulsar_rebalancer import lab",
        "import pulsar_rebalancer.lab.replay.decisions",
        "def later():\n    from pulsar_rebalancer.lab.simulation import world",
        "import importlib\nimportlib.import_module('pulsar_rebalancer.lab.demo.plan')",
        "import typing\nif typing.TYPE_CHECKING:\n    import pulsar_rebalancer.lab.goal",
    ],
)
def test_an_import_of_the_laboratory_from_outside_is_noticed(
    tmp_path: Path, package: str, line: str
) -> None:
    found = "; ".join(violations(project_of(package, line, tmp_path)))

    assert "must not import pulsar_rebalancer.lab" in found


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

    assert asking == ["pulsar_rebalancer/watch/follow.py"]
    assert naming == ["pulsar_rebalancer/cli/errors.py", "pulsar_rebalancer/cli/lazy.py"]


@pytest.mark.parametrize(
    ("package", "line", "complaint"),
    [
        ("strategies", "import time", "strategies is pure: no time"),
        ("strategies", "from random import random", "strategies is pure: no random"),
        ("strategies", "print('moved')", "strategies is pure: no call of print()"),
        ("strategies", "from . import model", "must not import a relative import"),
        ("sinks", "import kafka", "kafka is a client library"),
        ("sinks", "from pulsar import Client", "pulsar is a client library"),
        (
            "sinks",
            "try:\n    import httpx\nexcept ImportError:\n    pass",
            "httpx is a client library",
        ),
        (
            "sinks",
            "from strategies.shedding.threshold.fixed import ThresholdShedder",
            "names no concrete strategy",
        ),
        ("streaming", "from strategies.shedding.avg import fixed", "names no concrete strategy"),
        ("sinks", "import rich", "commands and their tables format output"),
        ("pulsar_rebalancer.decisions", "import typer", "commands and their tables format output"),
        ("pulsar_rebalancer.lab", "import rich", "commands and their tables format output"),
        ("pulsar_rebalancer.decisions", "print(1)", "pulsar_rebalancer.decisions prints nothing"),
    ],
)
def test_a_forbidden_line_is_noticed(
    tmp_path: Path, package: str, line: str, complaint: str
) -> None:
    (found,) = violations(project_of(package, line, tmp_path))

    assert found.startswith(f"{package.replace('.', '/')}/module.py:")
    assert complaint in found


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("strategies", "import numpy as np"),
        ("sinks", "def connect():\n    import kafka"),
        ("sinks", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pulsar"),
        ("sinks", "from strategies.shedding.registry import shedder"),
        ("streaming", "from pyspark.sql import SparkSession"),
        ("pulsar_rebalancer.cli", "from streaming import job"),
        ("pulsar_rebalancer.cli", "import rich"),
        ("pulsar_rebalancer.lab.commands", "from pulsar_rebalancer.cli import console"),
        ("pulsar_rebalancer.lab.tables", "import rich"),
    ],
)
def test_what_is_allowed_is_not_complained_about(tmp_path: Path, package: str, line: str) -> None:
    assert violations(project_of(package, line, tmp_path)) == []


def test_job_and_edges_know_no_strategy_by_name() -> None:
    """Only settings say which rule decides: neither its name nor its class is written in streaming
    or sinks.
    """
    # "transfer" is a strategy and, on the control topic, an action.
    names = {*SHEDDERS, *(entry.pulsar_class.rpartition(".")[2] for entry in SHEDDERS.values())} - {
        "transfer"
    }
    told = [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for package in sorted(UNAWARE_OF_STRATEGIES)
        for file in modules(ROOT / package)
        for line, word in words(parsed(file))
        if word in names
    ]

    assert told == []


def project_of(package: str, line: str, folder: Path) -> Path:
    """A project in `folder` that holds one module with this line, and the dependencies that ours
    declares.
    """
    place = folder.joinpath(*package.split("."))
    place.mkdir(parents=True)
    (place / "module.py").write_text(f'"""A module."""\n\n{line}\n', "utf-8")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string and identifier of a module."""
    for node in nodes(tree):
        match node:
            case ast.Constant(value=str(text)) | ast.Name(id=text) | ast.Attribute(attr=text):
                yield node.lineno, text
