"""A topic's URI is parsed at the edges only: settings, command lines, and the options that Spark
passes to another process as text.
"""

import ast
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

from sinks.topics.addresses import Topics, parse_topic
from tests.architecture.layers import PACKAGES, modules, parsed
from tests.calls import watched_calls
from tests.control_topic import TOPICS, Control
from tests.unit.test_log_lines import executed

ROOT = Path(__file__).parents[2]
#: Module → how often it parses.
EDGES = {
    "pulsar_rebalancer/settings/load.py": 1,
    "pulsar_rebalancer/cli/commands/record.py": 1,
    "pulsar_rebalancer/lab/tables/replay_answers.py": 1,
    "pulsar_rebalancer/decisions/log.py": 1,
    "streaming/large_records.py": 1,
}


def parses(node: ast.AST) -> bool:
    """Whether this is `parse_topic`, called or passed on."""
    return isinstance(node, ast.Name) and node.id == "parse_topic"


@pytest.mark.heavy
def test_topics_are_parsed_at_the_edges_only() -> None:
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for file in modules(ROOT / package):
            found[file.relative_to(ROOT).as_posix()] += sum(
                parses(node) for node in ast.walk(parsed(file))
            )
    assert dict(+found) == EDGES


def test_the_settings_hold_topics_and_no_text() -> None:
    assert {type(topic).__name__ for _, topic in Topics().named()} == {"TopicUri"}


@pytest.mark.heavy
def test_an_executor_parses_each_topic_once(tmp_path: Path) -> None:
    """From reading its settings to its exit, with one outcome published."""
    found: Counter[str] = Counter()

    def see(frame: FrameType) -> None:
        if frame.f_code is parse_topic.__code__ and not is_of_tests(frame.f_back):
            found[frame.f_locals["uri"]] += 1

    with watched_calls(see):
        assert executed(tmp_path).code == 0
    assert found == {Control(tmp_path).uri(topic): 1 for topic in TOPICS}


def is_of_tests(caller: FrameType | None) -> bool:
    """Whether a test reads or writes the topic."""
    return caller is not None and (ROOT / "tests") in Path(caller.f_code.co_filename).parents
