"""A topic's URI is parsed at the edges only: settings, command lines, and the options that Spark passes to another process as text."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from sinks.topics.settings import Topics
from tests.architecture.layers import PACKAGES, modules, parsed

ROOT = Path(__file__).parents[2]
#: Module → how often it parses.
EDGES = {
    "rebalancer/settings/load.py": 1,
    "rebalancer/cli/commands/record.py": 1,
    "rebalancer/cli/commands/replay.py": 1,
    "rebalancer/analysis/explain/history.py": 1,
    "streaming/sources/files.py": 1,
}


def parses(node: ast.AST) -> bool:
    """Whether this is `parse_topic`, called or passed on."""
    return isinstance(node, ast.Name) and node.id == "parse_topic"


def test_topics_are_parsed_at_the_edges_only() -> None:
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for file in modules(ROOT / package):
            found[file.relative_to(ROOT).as_posix()] += sum(parses(node) for node in ast.walk(parsed(file)))
    assert dict(+found) == EDGES


def test_the_settings_hold_topics_and_no_text() -> None:
    assert {type(topic).__name__ for _, topic in Topics().named()} == {"TopicUri"}
