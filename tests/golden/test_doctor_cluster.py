"""What `rebalancer doctor` finds in a cluster is in doctor_cluster.txt: each thing that is wrong is
one finding, with what to do about it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.cluster import cluster_checks
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.settings.load import load
from tests.golden.printed import compare
from tests.golden.test_doctor import EXTENSIBLE, SHEDDING, lines
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.unit.test_cli_doctor import QUIET
from tests.unit.test_collector import REPORT
from tests.world.placement import policy
from tests.world.services import lists_brokers

UNKNOWN = {"usage": 1.5, "limit": -1000.0}
IMPL = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


class Doctor:
    """Looks at three brokers, which are b1 to b3 in what it says, by the first of them."""

    def __init__(self, pulsar: FakePulsar, folder: Path) -> None:
        self.pulsar, self.cluster, self.folder = pulsar, pulsar.cluster, folder
        self.brokers = sorted(pulsar.cluster.brokers)
        self.names = {one: f"b{at}" for at, one in enumerate(self.brokers, 1)}
        self.asked = f"http://{self.brokers[0]}"
        self.told: list[str] = []

    def examines(self, *flags: str, only: str = "", shadow: bool = False, urls: str = "") -> None:
        """`only`: the check whose finding matters."""
        given = ["pulsar.cluster=c", f"pulsar.admin_urls={urls or self.asked}", *flags]
        found = [*findings(given, shadow)]
        title = " ".join((*flags, *(["in shadow mode"] if shadow else [])))
        self.told += [f"{title}\n".replace(str(self.folder), "FOLDER")] if title else []
        text = "".join(lines((one for one in found if only in ("", one.check)), self.folder))
        for broker, name in self.names.items():
            text = text.replace(broker, name)
        self.told.append(text)


def findings(flags: list[str], shadow: bool = False) -> Iterator[Finding]:
    for _, check in cluster_checks(load(flags=flags), shadow, 0):
        # How far clocks differ depends on the machine.
        yield from (one for one in check() if one.check != "clocks")


def in_order(doctor: Doctor) -> None:
    doctor.examines()


def without_an_answer(doctor: Doctor) -> None:
    doctor.examines(urls="http://127.0.0.1:1")


def tokens(doctor: Doctor) -> None:
    """One that nobody asks for, and one that does not open."""
    (doctor.folder / "token").write_text("wrong-token", "utf-8")
    doctor.examines(f"pulsar.token_file={doctor.folder}/token", only="token")
    doctor.cluster.token = "the right one"
    doctor.examines(f"pulsar.token_file={doctor.folder}/token")
    assert "wrong-token" not in "".join(doctor.told)


def built_in_shedding(doctor: Doctor) -> None:
    for on in ("true", "false"):
        doctor.cluster.configuration[SHEDDING] = on
        doctor.examines(only="built-in shedding")
        doctor.examines(only="built-in shedding", shadow=True)
        doctor.examines("rivals.moves_per_hour=0", only="built-in shedding", shadow=True)


def a_dead_broker(doctor: Doctor) -> None:
    doctor.pulsar.kill(doctor.brokers[2], still_listed=True)
    doctor.examines(only="brokers")
    doctor.examines(only="reports")


def reports_that_cannot_be_had(doctor: Doctor) -> None:
    doctor.pulsar.fail("load-report", answered(503))
    doctor.examines(only="reports")


def policies(doctor: Doctor) -> None:
    """Policies that no live broker can satisfy by 4.2, and that brokers can satisfy by 5.0."""
    doctor.cluster.owners["t/ns/0x00000000_0xffffffff"] = doctor.brokers[0]
    doctor.cluster.policies["p"] = policy("p", ["t/ns"], [doctor.brokers[0]])
    doctor.cluster.groups["t/ns"] = "g"
    doctor.examines(only="isolation policies")
    doctor.examines(only="anti-affinity groups")
    doctor.examines("filters.failure_domains=true", only="failure domains")
    doctor.examines("pulsar.version=5.0", only="isolation policies")
    doctor.cluster.version = "5.0.1"
    doctor.examines(only="isolation policies")
    doctor.pulsar.fail("namespaceIsolation", answered(404, b"<html>"))
    doctor.examines(only="isolation policies")
    doctor.examines(only="reports")


def reports_that_are_rejected(doctor: Doctor) -> None:
    doctor.cluster.reports[doctor.brokers[0]] = {"cpu": "high"}
    doctor.examines(only="reports")


def figures_that_are_left_out(doctor: Doctor) -> None:
    unused = REPORT | {"memory": {"usage": "NaN", "limit": 185.6}}
    doctor.cluster.reports[doctor.brokers[0]] = unused
    doctor.examines(only="reports")
    doctor.examines(only="figures")


def what_some_brokers_do_not_measure(doctor: Doctor) -> None:
    unknown = REPORT | {"bandwidthIn": UNKNOWN, "bandwidthOut": UNKNOWN}
    doctor.cluster.reports[doctor.brokers[0]] = unknown
    doctor.examines(only="measured")
    doctor.examines("capacities.nic_gbps=*=10", only="measured")
    doctor.examines("shedding.mode=parity", "shedding.strategy=threshold", only="measured")


def what_no_broker_measures(doctor: Doctor) -> None:
    doctor.cluster.report = REPORT | {"bandwidthOut": {"usage": 1.5, "limit": -2000.0}}
    doctor.examines(only="measured")


def load_managers_by_the_form_of_reports(doctor: Doctor) -> None:
    doctor.cluster.configuration["loadManagerClassName"] = IMPL
    for kind in ("LocalBrokerData", "LoadReport", 7, None):
        doctor.cluster.report = REPORT | {"loadReportType": kind}
        doctor.examines(only="load manager")


def a_cluster_that_lists_no_broker(doctor: Doctor) -> None:
    doctor.cluster.configuration["loadManagerClassName"] = EXTENSIBLE
    doctor.cluster.report = REPORT | {"loadReportType": "LocalBrokerData"}
    doctor.pulsar.fail(lists_brokers, answered(200, b"[]"))
    doctor.examines(only="brokers")
    doctor.examines(only="load manager")


STORIES: tuple[Callable[[Doctor], None], ...] = (
    in_order,
    without_an_answer,
    tokens,
    built_in_shedding,
    a_dead_broker,
    reports_that_cannot_be_had,
    policies,
    reports_that_are_rejected,
    figures_that_are_left_out,
    what_some_brokers_do_not_measure,
    what_no_broker_measures,
    load_managers_by_the_form_of_reports,
    a_cluster_that_lists_no_broker,
)


@contextmanager
def doctor_of_three(folder: Path) -> Iterator[Doctor]:
    with FakePulsar(Cluster(report=REPORT, configuration=dict(QUIET))) as pulsar:
        yield Doctor(pulsar, folder)


@pytest.mark.heavy
def test_checks_of_a_cluster_find_what_the_file_says(tmp_path: Path, rewrite: bool) -> None:
    assert [(one.check, one.status) for one in findings([])] == [("cluster", "ok")]
    parts: list[str] = []
    for story in STORIES:
        with doctor_of_three(tmp_path) as doctor:
            story(doctor)
        parts += [f"--- {story.__name__.replace('_', ' ')}\n\n", *doctor.told, "\n"]
    compare(Path(__file__).with_name("doctor_cluster.txt"), parts, rewrite)
