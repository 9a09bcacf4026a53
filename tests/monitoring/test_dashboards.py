"""The dashboards: each panel says what it shows, in a unit, and each metric is on a board."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from sinks.metrics.http_server_and_probes import Liveness, process_registry
from sinks.metrics.page_metrics import PageMetrics
from sinks.metrics.service_metrics import CollectorMetrics, DiskMetrics, ExecutorMetrics
from streaming.job_metrics import JobMetrics
from tests.monitoring.boards import BOARDS, Expression, expressions, metrics_in, panels
from tests.monitoring.pulsar_series import NEW, OLD
from tools.monitoring.promtool import ROOT, RULES

DOCKER = ROOT / "docker"
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in panels(board)]


def our_metrics() -> set[str]:
    """Names of all metrics, without the suffixes of a histogram's series."""
    registries = [CollectorRegistry() for _ in range(4)]
    JobMetrics(registries[0], 0, Liveness(60, ""))
    CollectorMetrics(registries[1], ["c"], Liveness(60, ""))
    ExecutorMetrics(registries[2], "c", Liveness(60, ""))
    PageMetrics(registries[3], Liveness(60, ""))
    DiskMetrics(registries[2], {"executor.state": Path("/")})
    ends = {"counter": "_total", "info": "_info"}
    return {
        metric.name + ends.get(metric.type, "")
        for registry in (*registries, process_registry("0.1.0"))
        for metric in registry.collect()
    }


def without_suffix(name: str) -> str:
    """The histogram of a series."""
    return re.sub(r"(_seconds)_(bucket|count|sum)$", r"\1", name)


@pytest.mark.parametrize(
    ("board", "panel"), PANELS, ids=[f"{name}-{panel['title']}" for name, panel in PANELS]
)
def test_a_panel_has_a_title_a_unit_and_a_description(board: str, panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["legendFormat"]
        assert target["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_panels_neither_overlap_nor_share_an_id(board: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in itertools.combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


def test_each_metric_of_ours_is_on_a_board() -> None:
    shown = {without_suffix(name) for one in expressions() for name in metrics_in(one.text)}
    assert our_metrics() - shown == set()


@pytest.mark.parametrize("one", list(expressions()), ids=lambda one: f"{one.board}-{one.panel}")
def test_expressions_name_metrics_that_exist(one: Expression) -> None:
    of_pulsar = set(re.findall(r"^(pulsar_\w+)\{", OLD + NEW, re.MULTILINE))
    found = {without_suffix(name) for name in metrics_in(one.text)}
    assert found <= our_metrics() | of_pulsar
    assert found or "ALERTS" in one.text or "up{" in one.text


def test_alerts_name_metrics_that_exist() -> None:
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    found = {without_suffix(name) for rule in rules for name in metrics_in(rule["expr"])}
    assert found <= our_metrics()


def test_grafana_finds_the_boards_and_the_data() -> None:
    def read(file: str) -> Any:
        return yaml.safe_load((DOCKER / file).read_text("utf-8"))

    provisioning = "grafana/provisioning"
    (provider,) = read(f"{provisioning}/dashboards/pulsar-rebalancer.yaml")["providers"]
    (source,) = read(f"{provisioning}/datasources/prometheus.yaml")["datasources"]
    grafana = read("compose.yaml")["services"]["grafana"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in grafana["volumes"]
    assert source["url"] == "http://prometheus:9090"
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).stem in BOARDS
    uids = [board["uid"] for board in BOARDS.values()]
    assert sorted(uids) == sorted(set(uids))
    links = {link["url"] for board in BOARDS.values() for link in board["links"]}
    assert links == {f"/d/{uid}" for uid in uids}
