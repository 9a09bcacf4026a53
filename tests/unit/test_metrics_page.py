"""The tables of docs/METRICS.md list every metric of the processes, with its type and
labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from pulsar_rebalancer.settings.leaves import all_leaves
from sinks.metrics.disk import DiskMetrics
from sinks.metrics.exposition import Liveness, process_registry
from sinks.metrics.page import PageMetrics
from sinks.metrics.services import CollectorMetrics, ExecutorMetrics, NotifierMetrics
from streaming.job_metrics import JobMetrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "METRICS.md").read_text("utf-8")
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
        ("Notifier", lambda registry: NotifierMetrics(registry, LIVENESS)),
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
    registry = process_registry("0.1.0")
    DiskMetrics(registry, {"executor.state": Path("/")})
    assert listed("All processes") == registered(registry)


def test_the_page_lists_the_alerts_of_the_rules_with_a_section_each() -> None:
    rules = yaml.safe_load((ROOT / "docker/prometheus/rules.yml").read_text("utf-8"))
    section = PAGE.split("\n## Alerts")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(PulsarRebalancer\w+)` \| (\w+) \| (\w+) \|", section, re.MULTILINE)
    assert rows == [
        (rule["alert"], rule["labels"]["severity"], rule["for"])
        for rule in rules["groups"][0]["rules"]
    ]
    headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
    assert [f"docs/METRICS.md#{heading.lower().replace(' ', '-')}" for heading in headings] == [
        rule["annotations"]["runbook"] for rule in rules["groups"][0]["rules"]
    ]


def test_the_page_lists_the_settings_with_their_defaults() -> None:
    rows = dict(re.findall(r"^\| `(metrics\.\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {
        leaf.path: str(leaf.default).lower() or "none"
        for leaf in all_leaves()
        if leaf.section == "metrics"
    }
