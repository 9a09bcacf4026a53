"""What `rebalancer doctor` finds in facts about brokers and in a cluster is in doctor_cluster.txt:
each thing that is wrong is one finding, with what to do about it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor import brokers as checks
from pulsar_rebalancer.doctor.admin_and_clocks import check_release, cluster_checks
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.doctor.policies import check_domains, check_groups, check_isolation
from pulsar_rebalancer.settings.merge_sources import load
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.fold.engine import EngineSettings
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from streaming.checkpoint.guard import guarded
from streaming.checkpoint.remembered_and_changed_settings import guard_of
from streaming.settings import JobSettings
from tests.golden.printed import compare, titled
from tests.golden.test_doctor import Findings, lines, told_by
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, answered
from tests.unit.test_cli_doctor import QUIET
from tests.unit.test_collector import REPORT
from tests.world.placement import policies as policies_of
from tests.world.placement import policy
from tests.world.services import lists_brokers

UNKNOWN = {"usage": 1.5, "limit": -1000.0}
IMPL = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
MODULAR, EXTENSIBLE = "ModularLoadManagerImpl", "ExtensibleLoadManagerImpl"
SIMPLE = "SimpleLoadManagerImpl"
SHEDDING, SPLITTING = "loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled"


def broker(
    name: str, manager: str = MODULAR, shedder: str = "ThresholdShedder", **more: str
) -> checks.Broker:
    """`runs`, `version`, `why`: of the broker; anything else is in its broker.conf."""
    given = {name: more.pop(name, "") for name in ("runs", "why")}
    version = more.pop("version", "4.2.4")
    impl = "org.apache.pulsar.broker.loadbalance.impl."
    configured = {
        "loadManagerClassName": impl + manager,
        "loadBalancerLoadSheddingStrategy": impl + shedder,
        "statsUpdateFrequencyInSecs": "60",
    }
    return checks.Broker(name, version, {**configured, **more}, **given)


def listed_brokers(_: Path) -> Findings:
    silent = replace(broker("c:1"), why="c:1 does not answer")
    for listed in ([], [broker("a:1"), broker("b:1")], [broker("a:1"), silent], [silent]):
        yield checks.check_brokers(listed)
    yield checks.check_brokers([broker("a:1"), broker("b:1", version="4.1.0")])


def load_managers(_: Path) -> Findings:
    settings = PulsarSettings("c", "http://a:8080")
    placed = "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"
    fallen = broker("a:1", runs=SIMPLE, loadBalancerLoadPlacementStrategy=placed)
    stayed = [broker(name, EXTENSIBLE, runs=MODULAR) for name in ("a:1", "b:1", "c:1")]
    for listed in (
        [broker("a:1", runs=MODULAR)],
        [broker("a:1"), broker("b:1", EXTENSIBLE), broker("c:1")],
        [broker("a:1", SIMPLE)],
        [fallen, broker("b:1", runs=MODULAR)],
        stayed,
        [],
    ):
        yield checks.check_load_manager(listed, settings)
    yield checks.check_load_manager([broker("a:1")], replace(settings, load_manager="extensible"))


def shedders(_: Path) -> Findings:
    on = {SHEDDING: "true"}
    for name in ("ThresholdShedder", "OverloadShedder", "UniformLoadShedder", "AvgShedder"):
        yield from checks.check_shedder([broker("a:1", EXTENSIBLE, name)])
    for listed in (
        [broker("a:1", EXTENSIBLE, **on)],
        [broker("a:1", EXTENSIBLE, loadBalancerEnabled="false", **on)],
        [broker("a:1")],
        [broker("a:1", **on)],
        [broker("a:1", EXTENSIBLE, "TransferShedder", **on)],
        [broker("a:1", EXTENSIBLE, "OursAlone")],
        [broker("a:1"), broker("b:1", shedder="OverloadShedder")],
        [checks.Broker("a:1", "", {}, "silent")],
    ):
        yield from checks.check_shedder(listed)


def rivals(_: Path) -> Findings:
    """Brokers that shed or split, beside an executor and in shadow mode."""
    quiet = broker("a:1", **{SHEDDING: "false", SPLITTING: "false"})
    loud = [broker(name, **{SHEDDING: "true", SPLITTING: "true"}) for name in ("a:1", "b:1")]
    off = broker("b:1", loadBalancerEnabled="false", **{SHEDDING: "true"})
    for listed in ([quiet], loud, [off], []):
        for shadow in (False, True):
            yield f"shadow: {shadow}"
            yield from checks.check_rivals(
                listed, splitting=shadow, shadow=shadow, moves_per_hour=10
            )
    yield from checks.check_rivals(loud[:1], splitting=True, shadow=True)


def settings_that_fit_the_brokers(_: Path) -> Findings:
    for manager in (MODULAR, EXTENSIBLE):
        for given in ("uniform", "transfer"):
            chosen = load(flags=[f"shedding.strategy={given}"]).engine
            yield checks.check_filters([broker("a:1", manager)], chosen)
    stated = load(flags=["filters.load_manager=extensible"]).engine
    yield checks.check_filters([broker("a:1", EXTENSIBLE)], stated)
    slow = [broker("a:1"), broker("b:1", statsUpdateFrequencyInSecs="120")]
    yield from (checks.check_rhythm(slow[:1], 60_000), checks.check_rhythm(slow, 60_000))
    minutes = {"loadBalancerHostUsageCheckIntervalMinutes": "1", "statsUpdateFrequencyInSecs": "10"}
    steadily = ["shedding.strategy=steady", "shedding.steady.sample_seconds=30"]
    for listed, given in (
        ([broker("a:1", statsUpdateFrequencyInSecs="10")], "weights.cpu=1.0"),
        ([broker("a:1", statsUpdateFrequencyInSecs="45")], "weights.cpu=1.0"),
        ([broker("a:1", **minutes)], "weights.cpu=1.0"),
        ([broker("a:1", **minutes)], "weights.cpu=0.0"),
    ):
        engine = load(flags=[*steadily, "round.interval_ms=30000", given]).engine
        yield checks.check_samples(listed, engine, "sample_seconds")


def pulsar_versions(folder: Path) -> Findings:
    job = JobSettings(checkpoint=f"{folder}/begun")
    flags = [f"job.checkpoint={folder}/begun"]
    new = load(flags=[f"job.checkpoint={folder}/new"])
    for versions in (("5.0.1", "5.0.1"), ("5.0.1", "4.2.4"), ("6.1.0",), ("",)):
        yield check_release([broker(f"b{at}", version=one) for at, one in enumerate(versions)], new)
    release: PulsarRelease = "4.2"
    with guarded(folder / "begun", guard_of(job, EngineSettings(pulsar_version=release))):
        pass
    yield check_release([broker("b1", version="5.0.1")], load(flags=flags))
    named = load(flags=[*flags, "pulsar.version=5.0"])
    yield check_release([broker("b1", version="4.2.4")], named)


def isolation_and_groups(_: Path) -> Findings:
    live = ("b0:8080", "b1:8080", "b2:8080")
    for given in (
        [],
        [policy("p", ["t/a"], ["b0"])],
        [policy("p", ["t/a"], ["b0:8080"], ["b1:8080"])],
        [policy("p", ["t/a"], [])],
        [policy("p", ["t/a"], ["b0", "b7"])],
        [policy("p", ["t/a"], ["b0"], min_limit=2)],
        [policy("p", ["t/a"], ["b0"], ["b1"], min_limit=2)],
        [policy("p", ["t/a"], ["("])],
        [policy("p", ["t/a"], ["b.*"])],
    ):
        yield from check_isolation(policies_of(*given), live)
    for spread in ("", "abc", "abcd"):
        groups = {f"t/{name}": "g" if name != "b" else "G" for name in spread}
        yield from check_groups(policies_of(groups=groups), live)
    narrow = policies_of(policy("p", ["t/x", "t/y"], ["b0"]), groups={"t/x": "g", "t/y": "g"})
    yield from check_groups(narrow, live)
    for name in ("b0:8080", "b0"):
        yield from check_domains(policies_of(domains={name: "east", "b1:8080": "west"}), live)
    yield from check_domains(policies_of(), live)


#: What checks find in facts about brokers; their answers are those above the stories of a cluster.
FACTS: tuple[Callable[[Path], Findings], ...] = (
    listed_brokers, load_managers, shedders, rivals, settings_that_fit_the_brokers, pulsar_versions,
    isolation_and_groups,
)  # fmt: skip


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
    in_order, without_an_answer, tokens, built_in_shedding, a_dead_broker,
    reports_that_cannot_be_had, policies, reports_that_are_rejected, figures_that_are_left_out,
    what_some_brokers_do_not_measure, what_no_broker_measures,
    load_managers_by_the_form_of_reports, a_cluster_that_lists_no_broker,
)  # fmt: skip


@contextmanager
def doctor_of_three(folder: Path) -> Iterator[Doctor]:
    with FakePulsar(Cluster(report=REPORT, configuration=dict(QUIET))) as pulsar:
        yield Doctor(pulsar, folder)


@pytest.mark.heavy
def test_checks_of_a_cluster_find_what_the_file_says(tmp_path: Path, rewrite: bool) -> None:
    assert [(one.check, one.status) for one in findings([])] == [("cluster", "ok")]
    parts = [*told_by(FACTS, tmp_path)]
    for story in STORIES:
        with doctor_of_three(tmp_path) as doctor:
            story(doctor)
        parts += [titled(story), *doctor.told, "\n"]
    compare(Path(__file__).with_name("doctor_cluster.txt"), parts, rewrite)
