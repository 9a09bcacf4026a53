"""The tables of docs/METRICS.md list every metric of the three processes, with its type and
labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from rebalancer.settings.leaves import all_leaves
from sinks.metrics.collector import CollectorMetrics
from sinks.metrics.executor import ExecutorMetrics
from sinks.metrics.labels import process_registry
from sinks.metrics.liveness import Liveness
from sinks.metrics.page import PageMetrics
from streaming.metrics import JobMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "METRICS.md").read_text("utf-8")
LIVENESS = Liveness(60, "a test")
SUFFIXES = {"counter": "_total", "info": "_info"}

Row = tuple[str, str, tuple[str, ...]]


def listed(heading: str) -> list[Row]:
    """Name, type and labels of each row below a heading."""
    section = PAGE.split(f"\n## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(pulsar_\w+)` \| (\w+) \| ([^|]+) \|", section, re.MULTILINE)
    return sorted(
        (name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    )


def registered(registry: CollectorRegistry) -> list[Row]:
    """Name, type and labels of each metric of a registry."""
    found: list[Any] = list(registry._collector_to_names)
    return sorted(
        (one._name + SUFFIXES.get(one._type, ""), one._type, tuple(one._labelnames))
        for one in found
    )


@pytest.mark.parametrize(
    ("heading", "register"),
    [
        ("Job", lambda registry: JobMetrics(registry, 0, LIVENESS)),
        ("Collector", lambda registry: CollectorMetrics(registry, ["c"], LIVENESS)),
        ("Executor", lambda registry: ExecutorMetrics(registry, "c", LIVENESS)),
        ("Live page", lambda registry: PageMetrics(registry, LIVENESS)),
    ],
)
def test_the_page_lists_every_metric(
    heading: str, register: Callable[[CollectorRegistry], object]
) -> None:
    registry = CollectorRegistry()
    register(registry)
    assert listed(heading) == registered(registry)


def test_the_page_lists_the_metrics_of_all_processes() -> None:
    assert listed("All processes") == registered(process_registry("0.1.0"))


def test_the_page_lists_the_settings_with_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(metrics\.\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {
        leaf.path: str(leaf.default).lower() or "none"
        for leaf in all_leaves()
        if leaf.section == "metrics"
    }
