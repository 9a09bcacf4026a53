"""Two classes are two names: a search for a class of these folders finds one definition."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.command_line import ROOT
from tests.architecture.layers import modules, parsed

PACKAGES = ("strategies", "sinks", "streaming", "rebalancer")
FOLDERS = ("strategies/", "streaming/state/", "rebalancer/analysis/", "rebalancer/conformance/")
#: Nouns of `strategies/model.py` that scenarios, metrics and broker.conf use for their own form of the same thing.
SHARED = {"Figures", "Outcome", "Traffic"}


def test_no_class_shares_its_name() -> None:
    places = defaultdict(list)
    for file in (one for package in PACKAGES for one in modules(ROOT / package)):
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file.relative_to(ROOT).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1 and any(one.startswith(FOLDERS) for one in found)}

    assert {name: found for name, found in twice.items() if name not in SHARED} == {}
