"""Doctor says which load manager and which shedder really run, whatever broker.conf names."""

from __future__ import annotations

import pytest

from pulsar_rebalancer.cli.finding import Finding
from pulsar_rebalancer.doctor.brokers import Broker, check_load_manager, check_shedder
from sinks.pulsar_api.settings import PulsarSettings
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.test_collector import REPORT
from tests.unit.test_doctor_cluster import QUIET, findings

ANSWERS = PulsarSettings("c", "http://a:8080")
IMPL = "org.apache.pulsar.broker.loadbalance.impl."
EXTENSIONS = "org.apache.pulsar.broker.loadbalance.extensions."
MODULAR, EXTENSIBLE, SIMPLE = (
    "ModularLoadManagerImpl",
    "ExtensibleLoadManagerImpl",
    "SimpleLoadManagerImpl",
)


def broker(
    name: str,
    manager: str,
    shedder: str = "ThresholdShedder",
    *,
    runs: str = "",
    on: str = "false",
    **more: str,
) -> Broker:
    given = {
        "loadManagerClassName": IMPL + manager,
        "loadBalancerLoadSheddingStrategy": IMPL + shedder,
        "loadBalancerSheddingEnabled": on,
    }
    return Broker(name, "4.2.3", {**given, **more}, runs=runs)


def shedder(*listed: Broker) -> Finding:
    (found,) = check_shedder(listed)
    return found


def test_a_broker_that_fell_back_silently_is_named_with_the_cause() -> None:
    fallen = broker(
        "a:1", MODULAR, runs=SIMPLE, loadBalancerLoadPlacementStrategy=IMPL + "AvgShedder"
    )
    found = check_load_manager([fallen, broker("b:1", MODULAR, runs=MODULAR)], ANSWERS)
    assert found.status == "fail"
    assert found.text.startswith(
        "a:1 runs SimpleLoadManagerImpl, although ModularLoadManagerImpl is configured"
    )
    assert (
        "AvgShedder places only where it sheds too, and ThresholdShedder is configured"
        in found.remedy
    )


def test_an_extensible_cluster_that_silently_runs_the_modular_manager() -> None:
    found = check_load_manager(
        [broker(name, EXTENSIBLE, runs=MODULAR) for name in ("a:1", "b:1", "c:1")], ANSWERS
    )
    assert (found.status, found.text.partition(",")[0]) == (
        "fail",
        "a:1 and 2 more runs ModularLoadManagerImpl",
    )


def test_brokers_of_both_kinds_in_one_cluster_are_named() -> None:
    found = check_load_manager([broker("a:1", MODULAR), broker("b:1", EXTENSIBLE)], ANSWERS)
    assert found.status == "fail"
    assert "a:1 runs ModularLoadManagerImpl" in found.text
    assert "b:1 runs ExtensibleLoadManagerImpl" in found.text


def test_a_load_manager_that_nobody_can_collect_from_is_a_failure() -> None:
    assert check_load_manager([broker("a:1", SIMPLE)], ANSWERS).status == "fail"
    assert check_load_manager([broker("a:1", MODULAR, runs=MODULAR)], ANSWERS).status == "ok"


@pytest.mark.parametrize(
    "name", ["ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"]
)
def test_the_extensible_manager_runs_transfer_shedder_in_place_of_the_others(name: str) -> None:
    quiet = shedder(broker("a:1", EXTENSIBLE, name))
    assert (quiet.status, quiet.text.partition(":")[0]) == ("ok", "TransferShedder")
    assert quiet.text.endswith(f"in place of {name}, which is configured, and shedding is off")
    loud = shedder(broker("a:1", EXTENSIBLE, name, on="true"))
    assert (loud.status, "extensions.scheduler.TransferShedder" in loud.remedy) == ("warn", True)
    assert (
        shedder(broker("a:1", EXTENSIBLE, name, on="true", loadBalancerEnabled="false")).status
        == "ok"
    )


def test_what_is_configured_runs_elsewhere() -> None:
    assert shedder(broker("a:1", MODULAR)).text == "ThresholdShedder, and shedding is off"
    assert shedder(broker("a:1", MODULAR, on="true")).text == "ThresholdShedder"
    assert (
        shedder(broker("a:1", EXTENSIBLE, "TransferShedder", on="true")).text == "TransferShedder"
    )
    assert shedder(broker("a:1", EXTENSIBLE, "OursAlone")).text.startswith("OursAlone")
    assert (
        shedder(broker("a:1", MODULAR), broker("b:1", MODULAR, "OverloadShedder")).status == "warn"
    )
    assert list(check_shedder([Broker("a:1", "", {}, "silent")])) == []


def report(**more: object) -> FakePulsar:
    return FakePulsar(
        Cluster(
            report={**REPORT, **more},
            configuration={**QUIET, "loadManagerClassName": IMPL + MODULAR},
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
        pulsar.cluster.configuration["loadManagerClassName"] = EXTENSIONS + EXTENSIBLE
        pulsar.faults = lambda request: (
            Fault(instead=Answer(200, b"[]")) if request.target.endswith("/brokers/c") else None
        )
        found = findings(pulsar)
    assert found["brokers"].text == "the cluster lists no broker, although one answers"
    assert (
        found["load manager"].status,
        "runs ModularLoadManagerImpl" in found["load manager"].text,
    ) == ("fail", True)
