"""Two classes are two names: a search for a class of the product finds one definition."""

import ast
from collections import defaultdict

import pytest

from tests.architecture.command_line import ROOT
from tests.architecture.layers import modules, parsed

PACKAGES = ("strategies", "sinks", "streaming", "pulsar_rebalancer")
#: A log line of the commands, and a line of a file topic.
SHARED = {"Line"}


@pytest.mark.heavy
def test_no_class_shares_its_name() -> None:
    places = defaultdict(list)
    for file in (one for package in PACKAGES for one in modules(ROOT / package)):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file.relative_to(ROOT).as_posix())

    assert {
        name: found for name, found in places.items() if len(found) > 1 and name not in SHARED
    } == {}
