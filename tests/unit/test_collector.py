"""The collector: every report verbatim, sweeps that name who is missing, policies."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from sinks.collector.broker_poll import BrokerPoll
from sinks.collector.collector import Collector, Source
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LeaderPoll
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import open_publisher
from sinks.wire.contracts.telemetry import NamespaceBundleStats
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Policies, Sweep
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.errors import Unauthorized
from strategies.filters.isolation import isolated
from strategies.filters.policies import PoliciesView, read_policies
from tests.control_topic import Control, storing
from tests.pulsar_fake.model import Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault, answered
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer
from tests.world.placement import policy
from tools.processes.set_words import set_words
from tools.traffic.racing import topics_in

DATA = Path(__file__).parents[1] / "data"
REPORT = json.loads((DATA / "load-report-4.2.4.json").read_text("utf-8"))
Kind = TypeVar("Kind")
POLICY = policy("p", ["t/ns"], [r"127\.0\.0\.1"])


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT)) as running:
        running.cluster.owners["t/ns/0x00000000_0xffffffff"] = running.cluster.brokers[0]
        yield running


@contextmanager
def collector(
    pulsar: FakePulsar, control: Control, deadline_ms: int = 5_000, **given: Any
) -> Iterator[Collector]:
    """Of modular brokers; a second passes at each look at the clock."""
    settings = PulsarSettings("c", pulsar.admin_urls, backoff_ms=0)
    passes = CollectorSettings(**given)
    hasty = replace(settings, attempts=1, deadline_ms=deadline_ms)
    clock = partial(next, iter(range(1_000_000_000_000, 2_000_000_000_000, 1_000)))
    with (
        closing(PulsarAdmin(settings)) as admin,
        closing(PulsarAdmin(hasty)) as quick,
        closing(open_publisher(topic_of(control.uri("telemetry")))) as publisher,
    ):
        poll = BrokerPoll(quick.load_report, passes.max_concurrent, passes.most_passes_off, clock)
        leader = LeaderPoll(quick, clock)
        source = Source("c", (), "modular", passes, admin, poll.run, leader)
        yield Collector(source, storing(publisher))


@pytest.fixture
def collecting(pulsar: FakePulsar, control: Control) -> Iterator[Collector]:
    with collector(pulsar, control, policies_interval_ms=100) as found:
        yield found


def records(control: Control, kind: type[Kind]) -> list[Kind]:
    found = [decode(value, b"") for value in control.read("telemetry")]
    return [record for record in found if isinstance(record, kind)]


def views(control: Control) -> list[PoliciesView]:
    """The published policies as rounds read them."""
    return [read_policies(record.snapshot) for record in records(control, Policies)]


def test_a_pass_is_every_report_and_then_the_sweep(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    collecting.step()
    values, brokers = control.read("telemetry"), sorted(pulsar.cluster.brokers)
    *reports, policies, sweep = (decode(value, b"") for value in values)
    assert isinstance(policies, Policies)
    assert [report.broker for report in reports if isinstance(report, LoadReport)] == brokers
    assert len(reports) == 3
    assert isinstance(sweep, Sweep)
    assert (sweep.sweep, sweep.brokers, sweep.missing) == (1, tuple(brokers), {})
    assert json.loads(values[0])["report"] == REPORT, "verbatim"


@pytest.mark.parametrize(
    ("configuration", "shedding"),
    [
        ({"SheddingEnabled": "true"}, True),
        ({"SheddingEnabled": "false"}, False),
        ({"SheddingEnabled": "true", "Enabled": "false"}, False),
        ({}, None),
    ],
)
def test_a_sweep_says_who_leads_and_whether_the_leader_sheds_by_itself(
    pulsar: FakePulsar, control: Control, configuration: dict[str, str], shedding: bool | None
) -> None:
    keys = {f"loadBalancer{key}": value for key, value in configuration.items()}
    pulsar.cluster.configuration.update(keys)
    with collector(pulsar, control) as collecting:
        collecting.step()
    (sweep,) = records(control, Sweep)
    assert (sweep.leader, sweep.shedding) == (pulsar.cluster.leader(), shedding)


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_without_an_answer_about_the_leader_the_sweep_says_nothing_about_it(
    pulsar: FakePulsar, control: Control, collecting: Collector, status: int
) -> None:
    pulsar.fail("leaderBroker", answered(status))
    asked = []
    for _ in range(2):
        collecting.step()
        asked.append(sum("leaderBroker" in request.target for request, _ in pulsar.calls))
    first = records(control, Sweep)[0]
    assert (first.leader, first.shedding) == (None, None)
    assert b"leader" not in control.read("telemetry")[-1]
    assert 0 < asked[0] == asked[1], "a pause of a minute"


@pytest.mark.heavy
def test_a_dead_a_silent_and_a_strange_broker_are_named_and_delay_nobody(
    pulsar: FakePulsar, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    strange, gone = pulsar.join(), pulsar.join()
    pulsar.kill(three, still_listed=True)
    wrong = {two: Fault(delay_s=600), strange: answered(200, b"<html>")}
    wrong[gone] = answered(404, b'{"reason":"so"}')
    pulsar.faults = lambda request: (
        wrong.get(request.broker) if "load-report" in request.target else None
    )
    with collector(pulsar, control, deadline_ms=2_000) as collecting:
        done = collecting.step().done
    (sweep,) = records(control, Sweep)
    assert sweep.brokers == (one,)
    assert "did not answer" in sweep.missing[two]
    assert "does not accept connections" in sweep.missing[three]
    assert done is not None
    codes = dict.fromkeys((two, three), "broker-unavailable")
    assert done.missing_codes == {**codes, strange: "not-json", gone: "not-found"}
    assert sweep.missing.keys() == done.missing_codes.keys()


def test_a_broker_that_keeps_failing_is_asked_ever_more_rarely_and_always_named(
    pulsar: FakePulsar, control: Control
) -> None:
    bad, asked = pulsar.cluster.brokers[2], []

    def asks_bad(request: Request) -> bool:
        return request.broker == bad and "load-report" in request.target

    pulsar.fail(asks_bad, answered(503))
    with collector(pulsar, control, most_passes_off=2) as one:
        for _ in range(10):
            pulsar.calls.clear()
            one.step()
            asked.append(int(any(asks_bad(call) for call, _ in pulsar.calls)))
        assert asked == [1, 1, 0, 1, 0, 0, 1, 0, 0, 1]
        assert all(bad in sweep.missing for sweep in records(control, Sweep))
        pulsar.heal()
        for _ in range(3):
            one.step()
    assert bad in records(control, Sweep)[-1].brokers


def test_brokers_of_another_load_manager_than_was_stated_are_named_with_the_remedy(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    pulsar.cluster.manager = "extensible"
    collecting.step()
    (sweep,) = records(control, Sweep)
    assert len(sweep.missing) == 3
    for reason in sweep.missing.values():
        assert "set pulsar.load_manager to extensible" in reason


def test_policies_are_published_when_they_change_and_read_as_they_are_meant(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    brokers = pulsar.cluster.brokers
    changed = [collecting.step().policies, collecting.step().policies]
    pulsar.cluster.policies["p"] = POLICY
    pulsar.cluster.groups["t/ns"] = "g1"
    pulsar.cluster.domains["d"] = {"brokers": [brokers[0]]}
    changed.append(collecting.step().policies)
    assert changed == [True, False, True]
    last = views(control)[-1]
    assert last.complaints == ()
    assert (last.groups, last.domains) == ({"t/ns": "g1"}, {brokers[0]: "d"})
    assert isolated(last, "t/ns", brokers) == {}
    assert set(isolated(last, "other/ns", brokers)) == set(brokers)
    assert {facts.version for facts in last.brokers.values()} == {"4.2.4"}


@pytest.mark.heavy
def test_policies_that_do_not_change_are_published_again_after_a_while(
    pulsar: FakePulsar, control: Control
) -> None:
    """A job that rejected them after an outage, or reads the newest telemetry only, needs them."""
    with collector(pulsar, control, policies_interval_ms=100, policies_repeat_ms=30_000) as one:
        results = [one.step() for _ in range(20)]
    assert [result.policies for result in results] == [True] + [False] * 19
    passes = [result.done.ts for result in results if result.done is not None]
    due = [passes[0]]
    for ts in passes:
        due += [ts] if ts - due[-1] >= 30_000 else []
    assert [record.ts for record in records(control, Policies)] == due
    assert 2 < len(due) < 10


def test_policies_that_cannot_be_read_stay_as_they_were_and_are_asked_for_again(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    assert collecting.step().policies
    pulsar.fail("failureDomains", answered(500))
    told = collecting.step()
    assert not told.policies
    assert "stay as they were" in told.complaints[0]
    pulsar.heal()
    pulsar.cluster.policies["p"] = POLICY
    assert collecting.step().policies
    assert len(views(control)) == 2


#: Answers that say nothing about the part of the policies that is asked for.
UNREAD = {
    "a broken broker": ("failureDomains", 500, ""),
    "a page of a proxy": ("namespaceIsolationPolicies", 404, "<html>404</html>"),
    "another cluster": ("namespaceIsolationPolicies", 404, "Cluster c does not exist."),
    "a broken store": ("antiAffinity", 404, "Couldn't find namespace policies"),
    "a group behind a proxy": ("antiAffinity", 404, "<html>404</html>"),
}


@pytest.mark.parametrize("unread", UNREAD.values(), ids=UNREAD)
def test_until_policies_have_been_read_they_protect_every_bundle(
    pulsar: FakePulsar, control: Control, collecting: Collector, unread: tuple[str, int, str]
) -> None:
    """Without a record, rounds would know of no policy and break those that are there."""
    part, status, says = unread
    body = says if "<" in says or not says else json.dumps({"reason": says})
    pulsar.fail(part, answered(status, body.encode()))
    (complaint,) = collecting.step().complaints
    assert "nothing moves" in complaint
    view = views(control)[-1]
    refused = isolated(view, "any/ns", pulsar.cluster.brokers)
    assert [why.code for why in refused.values()] == ["isolation-unreadable"] * 3
    assert "policies.isolation: could not be read: " in view.complaints[0]
    assert {facts.version for facts in view.brokers.values()} == {"4.2.4"}
    pulsar.heal()
    assert collecting.step().complaints == ()
    assert isolated(views(control)[-1], "any/ns", pulsar.cluster.brokers) == {}


def test_a_namespace_that_was_deleted_meanwhile_has_no_group(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    def deletes(request: Request) -> Fault | None:
        if "antiAffinity" not in request.target:
            return None
        pulsar.cluster.owners.clear()
        return answered(404, b'{"reason":"Namespace does not exist"}')

    pulsar.faults = deletes
    assert collecting.step().complaints == ()
    assert (views(control)[-1].groups, views(control)[-1].complaints) == ({}, ())


def test_a_cluster_that_lists_nobody_makes_no_sweep(
    pulsar: FakePulsar, control: Control, collecting: Collector
) -> None:
    pulsar.fail("", answered(503))
    told = collecting.step()
    assert told.done is None
    assert "answered 503" in told.complaints[0]
    assert control.read("telemetry") == []


def test_a_wrong_token_ends_it(pulsar: FakePulsar, collecting: Collector) -> None:
    pulsar.cluster.token = "another"
    with pytest.raises(Unauthorized):
        collecting.step()


def test_many_brokers_are_asked_at_a_time_but_no_more_than_allowed(pulsar: FakePulsar) -> None:
    for _ in range(17):
        pulsar.join()
    pulsar.fail("", Fault(delay_s=0.05))
    with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
        done = BrokerPoll(admin.load_report, 4, 0, lambda: 0).run(pulsar.cluster.brokers)
    assert len(done.reports) == 20
    assert 1 < pulsar.most_at_once <= 4


def test_one_look_is_a_table_and_publishes_nothing(pulsar: FakePulsar, control: Control) -> None:
    pulsar.kill(pulsar.cluster.brokers[1], still_listed=True)
    given = set_words(control.settings(pulsar__admin_urls=pulsar.admin_urls))
    table, document = (rebalancer("collect", "--once", *given, *more) for more in ((), ("--json",)))
    assert table.code == 0
    assert all(broker in table.out for broker in pulsar.cluster.brokers)
    assert "does not accept" in table.words
    assert control.read("telemetry") == []
    brokers = document.json["brokers"]
    assert [one["broker"] for one in brokers] == sorted(pulsar.cluster.brokers)
    assert sum(one["missing"] is None for one in brokers) == 2


def test_the_topics_of_one_hot_bundle_are_read_per_pass(
    pulsar: FakePulsar, control: Control
) -> None:
    """Its report names a bundle with 60 MB/s and one with many small messages."""
    hot, many = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"
    broker = sorted(pulsar.cluster.brokers)[0]
    idle = {one.name: 0 for one in msgspec.structs.fields(NamespaceBundleStats)}
    stats = {hot: {**idle, "msgThroughputIn": 6e7}, many: {**idle, "msgRateOut": 3e4}}
    pulsar.cluster.reports[broker] = {**REPORT, "lastStats": stats}
    pulsar.cluster.owners = {hot: broker, many: broker}
    names = [topic for one in (hot, many) for topic in topics_in(one, 70)]
    pulsar.cluster.figures = {
        f"{topic}-partition-{at}": {"msgThroughputIn": 1e6 + at, "msgRateIn": 10.0}
        for at, topic in enumerate(names)
    }
    pulsar.cluster.dispatch_rate = {"dispatchThrottlingRateInByte": 5_000_000}
    with collector(pulsar, control) as collecting:
        for _ in range(4):
            collecting.step()
    assert len(records(control, TopicsOfBundle)) == 2, "the others are a minute old at most"
    with collector(pulsar, control, hot_bundle_mb=0.0) as collecting:
        collecting.step()

    first, second = records(control, TopicsOfBundle)
    assert (first.bundle, second.bundle, first.broker) == (hot, many, broker)
    loads = [topic.throughput for topic in first.topics]
    assert loads == sorted(loads, reverse=True)[:64]
    assert first.others_throughput == pytest.approx(1e6 * first.others, rel=0.01)
    assert (first.partitions, first.dispatch) == (1, (0, 5_000_000))

    given = set_words(control.settings(pulsar__admin_urls=pulsar.admin_urls))
    read = rebalancer("collect", "--topics", hot, *given)
    missing = rebalancer("collect", "--topics", "t/ns/0x00000000_0x00000001", *given)
    assert "6 others" in read.out
    assert "5.0 MB/s; below 20 MB/s" in read.words
    assert missing.code == 2
