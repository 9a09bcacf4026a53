"""Doctor looks at a cluster: each thing that is wrong is one finding, with what to do about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.finding import Finding
from pulsar_rebalancer.doctor.cluster import check_clocks, cluster_checks
from pulsar_rebalancer.settings.load import Settings, load
from sinks.pulsar_api.settings import PulsarSettings
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import REPORT

QUIET = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "statsUpdateFrequencyInSecs": "60",
}


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT, configuration=dict(QUIET))) as running:
        yield running


def settings(pulsar: FakePulsar, *more: str) -> Settings:
    return load(
        None,
        {},
        [
            "pulsar.cluster=c",
            f"pulsar.admin_urls={pulsar.admin_urls}",
            *more,
        ],
    )


def findings(pulsar: FakePulsar, *more: str, shadow: bool = False) -> dict[str, Finding]:
    return {finding.check: finding for finding in of_clusters(settings(pulsar, *more), shadow)}


def of_clusters(settings: Settings, shadow: bool = False) -> list[Finding]:
    return [finding for _, check in cluster_checks(settings, shadow, 0) for finding in check()]


def test_a_cluster_in_order(pulsar: FakePulsar) -> None:
    found = findings(pulsar)
    assert {check: finding.status for check, finding in found.items()} == dict.fromkeys(found, "ok")
    assert found.keys() >= {
        "brokers",
        "load manager",
        "built-in shedding",
        "built-in splitting",
        "reports",
        "rhythm",
        "samples",
        "filters",
        "token",
        "clocks",
    }
    assert found["brokers"].text == "3 of 3 answer, version 4.2.4"


def test_no_cluster_is_no_failure() -> None:
    (found,) = of_clusters(load(None, {}, []))
    assert (found.check, found.status) == ("cluster", "ok")


def test_a_cluster_that_does_not_answer_is_one_finding() -> None:
    (found,) = of_clusters(
        load(
            None,
            {},
            ["pulsar.cluster=c", "pulsar.admin_urls=http://127.0.0.1:1"],
        )
    )
    assert (found.check, found.status) == ("cluster", "fail")
    assert "does not accept connections" in found.text


def test_a_token_that_does_not_open_is_one_finding_without_the_token(
    pulsar: FakePulsar, tmp_path: Path
) -> None:
    pulsar.cluster.token = "the right one"
    (tmp_path / "token").write_text("wrong-token", "utf-8")
    (found,) = findings(pulsar, f"pulsar.token_file={tmp_path / 'token'}").values()
    assert (found.check, found.status) == ("token", "fail")
    assert "pulsar.token_file" in found.remedy
    assert "wrong-token" not in found.text


def test_a_token_that_nobody_asks_for_is_told(pulsar: FakePulsar, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("any", "utf-8")
    found = findings(pulsar, f"pulsar.token_file={tmp_path / 'token'}")["token"]
    assert (found.status, found.text) == ("warn", "the cluster also answers without a token")


@pytest.mark.heavy
def test_the_built_in_shedder_must_be_off_unless_it_is_only_compared_with(
    pulsar: FakePulsar,
) -> None:
    pulsar.cluster.configuration["loadBalancerSheddingEnabled"] = "true"
    found = findings(pulsar)["built-in shedding"]
    assert found.status == "fail"
    assert (
        "update-dynamic-config --config loadBalancerSheddingEnabled --value false" in found.remedy
    )
    never = "rivals.moves_per_hour=0"
    assert findings(pulsar, never, shadow=True)["built-in shedding"].status == "ok"
    yields = findings(pulsar, shadow=True)["built-in shedding"]
    assert yields.status == "warn"
    assert "rounds yield to it (rivals.moves_per_hour = 10)" in yields.text
    pulsar.cluster.configuration["loadBalancerSheddingEnabled"] = "false"
    assert findings(pulsar, shadow=True)["built-in shedding"].status == "warn"


def test_a_dead_broker_is_named_in_brokers_and_reports(pulsar: FakePulsar) -> None:
    dead = pulsar.cluster.brokers[2]
    pulsar.kill(dead, still_listed=True)
    found = findings(pulsar)
    assert [found[check].status for check in ("brokers", "reports")] == ["warn", "warn"]
    assert dead in found["brokers"].text
    assert dead in found["reports"].text


def test_reports_that_cannot_be_had_are_a_failure(pulsar: FakePulsar) -> None:
    pulsar.fail("load-report", answered(503))
    assert findings(pulsar)["reports"].status == "fail"


def test_clocks_that_differ(pulsar: FakePulsar) -> None:
    asked = PulsarSettings("c", pulsar.admin_urls)
    assert check_clocks(pulsar.cluster.brokers, asked).status == "ok"
    found = check_clocks(pulsar.cluster.brokers, asked, lambda: time.time() + 60)
    assert found.status == "warn"
    assert "differs by" in found.text


@pytest.mark.heavy
def test_doctor_ends_with_1_when_the_cluster_has_a_rival(pulsar: FakePulsar) -> None:
    words = [
        "doctor",
        "--no-spark-start",
        "--json",
        "--set",
        "pulsar.cluster=c",
        "--set",
        f"pulsar.admin_urls={pulsar.admin_urls}",
    ]
    told = {finding["check"]: finding["status"] for finding in rebalancer(*words).json["findings"]}
    assert told["built-in shedding"] == "ok"
    pulsar.cluster.configuration["loadBalancerSheddingEnabled"] = "true"
    assert rebalancer(*words).code == 1


def test_what_some_brokers_do_not_measure_is_named_with_the_remedy(pulsar: FakePulsar) -> None:
    blind = pulsar.cluster.brokers[0]
    unknown = {"usage": 1.5, "limit": -1000.0}
    pulsar.cluster.reports[blind] = REPORT | {"bandwidthIn": unknown, "bandwidthOut": unknown}

    found = findings(pulsar)["measured"]

    assert (found.status, found.text) == (
        "warn",
        f"{blind}: bandwidth_in, bandwidth_out not measured by 1 of 3 brokers, so all are compared "
        "by the rest [resource-not-measured]",
    )
    assert found.remedy.startswith("set loadBalancerOverrideBrokerNicSpeedGbps")
    known = findings(pulsar, "capacities.nic_gbps=*=10")["measured"]
    assert (known.status, known.text) == ("ok", "all brokers measure what they are compared by")
    assert "measured" not in findings(pulsar, "shedding.mode=parity", "shedding.strategy=threshold")


def test_a_broker_whose_report_is_rejected_has_no_figures(pulsar: FakePulsar) -> None:
    pulsar.cluster.reports[pulsar.cluster.brokers[0]] = {"cpu": "high"}

    found = findings(pulsar)["reports"]

    assert found.status == "warn"
    assert found.text.startswith("2 of 3 brokers have figures: the reports of ")
    assert "are rejected: $.report.cpu is a string where an object belongs" in found.text


def test_a_figure_that_is_left_out_is_named(pulsar: FakePulsar) -> None:
    blind = pulsar.cluster.brokers[0]
    pulsar.cluster.reports[blind] = REPORT | {"memory": {"usage": "NaN", "limit": 185.6}}

    found = findings(pulsar)

    assert found["reports"].text == "3 of 3 brokers have figures"
    assert found["figures"].text == (
        f'{blind} reports figures that are left out: memory.usage is "NaN"'
    )


def test_what_no_broker_measures_is_named_with_the_remedy(pulsar: FakePulsar) -> None:
    pulsar.cluster.report = REPORT | {"bandwidthOut": {"usage": 1.5, "limit": -2000.0}}

    found = findings(pulsar)["measured"]

    assert found.status == "warn"
    assert found.text == "no broker measures bandwidth_out, so none is compared by it"
    assert "capacities.nic_gbps" in found.remedy


IMPL = "org.apache.pulsar.broker.loadbalance.impl."


def report(**more: object) -> FakePulsar:
    return FakePulsar(
        Cluster(
            report={**REPORT, **more},
            configuration={**QUIET, "loadManagerClassName": f"{IMPL}ModularLoadManagerImpl"},
        )
    )


@pytest.mark.parametrize(
    ("kind", "status"), [("LocalBrokerData", "ok"), ("LoadReport", "fail"), (7, "ok"), (None, "ok")]
)
def test_the_form_of_a_load_report_says_which_load_manager_runs(kind: object, status: str) -> None:
    with report(loadReportType=kind) as pulsar:
        assert findings(pulsar)["load manager"].status == status


def test_a_cluster_that_lists_no_broker_is_asked_where_the_settings_point() -> None:
    with report(loadReportType="LocalBrokerData") as pulsar:
        pulsar.cluster.configuration["loadManagerClassName"] = (
            "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
        )
        pulsar.fail(lambda request: request.target.endswith("/brokers/c"), answered(200, b"[]"))
        found = findings(pulsar)
    assert found["brokers"].text == "the cluster lists no broker, although one answers"
    assert (
        found["load manager"].status,
        "runs ModularLoadManagerImpl" in found["load manager"].text,
    ) == ("fail", True)
