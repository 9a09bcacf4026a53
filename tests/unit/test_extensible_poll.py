"""A pass over extensible brokers: what they said, what still holds, who has no figures."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import pytest

from sinks.collector.broker_poll import BrokerPoll, Kind, Pass, Report
from sinks.collector.extensible_poll import WITHDRAWN, ExtensiblePoll, one_line
from sinks.collector.open_cluster import load_manager_of
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import service_url_of
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.errors import BrokerUnavailable, Refused
from tests.pulsar_fake.model import Cluster as FakeCluster
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import FakePulsar, Fault, answered

A, B = "a:8080", "b:8080"


@dataclass
class Cluster:
    """Brokers that publish what a test says, and answer unless they are `silent`."""

    now_ms: int = 1_000_000
    said: list[Report] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    poll: ExtensiblePoll = field(init=False)

    def __post_init__(self) -> None:
        self.poll = ExtensiblePoll(
            self.take, BrokerPoll(self.answer, 4, 0, self.clock), self.owned, 60_000, self.clock
        )

    def take(self) -> list[Report]:
        said, self.said = self.said, []
        return said

    @staticmethod
    def owned(brokers: Sequence[str]) -> tuple[Report, ...]:
        return tuple(Report(broker, 0, b"{}") for broker in brokers)

    def clock(self) -> int:
        return self.now_ms

    def answer(self, broker: str) -> bytes:
        if broker in self.silent:
            raise BrokerUnavailable(f"{broker} does not answer")
        return b"null"

    def says(self, broker: str, cpu: int | None, kind: Kind = "broker-load-data") -> None:
        self.said.append(
            Report(broker, self.now_ms, WITHDRAWN if cpu is None else b'{"cpu":%d}' % cpu, kind)
        )

    def run(self, *brokers: str, after_s: int = 10) -> Pass:
        self.now_ms += after_s * 1000
        return self.poll.run(brokers or (A, B))


def told(done: Pass) -> list[tuple[str, Kind, bytes]]:
    return [(report.broker, report.kind, report.body) for report in done.reports]


def both_known() -> Cluster:
    cluster = Cluster()
    cluster.says(A, 1)
    cluster.says(B, 2)
    cluster.run()
    return cluster


def test_all_that_was_said_in_its_order_and_then_what_still_holds() -> None:
    cluster = Cluster()
    cluster.says(A, 1)
    cluster.says(B, 2)
    cluster.says(B, 5, "top-bundles-load-data")
    cluster.run()
    cluster.says(A, 3)
    cluster.says(A, 4)
    done = cluster.run()
    figures, bundles = "broker-load-data", "top-bundles-load-data"
    of_a = [(A, figures, b'{"cpu":3}'), (A, figures, b'{"cpu":4}')]
    assert told(done) == [*of_a, (B, figures, b'{"cpu":2}'), (B, bundles, b'{"cpu":5}')]
    assert (done.answered, done.missing, done.number) == ((A, B), {}, 2)
    assert [report.ts for report in done.reports] == [1_010_000, 1_010_001, 1_020_000, 1_020_000], (
        "later than the word before, always"
    )


def test_who_has_not_said_anything_yet_is_named() -> None:
    cluster = Cluster()
    cluster.says(A, 1)
    done = cluster.run()
    assert (done.answered, done.missing_codes) == ((A,), {B: "not-published"})
    assert "has not published its load since the collector started" in done.missing[B]


def test_who_withdrew_is_named_until_new_figures_come_and_is_not_repeated() -> None:
    cluster = both_known()
    cluster.says(A, None)
    first = cluster.run()
    second = cluster.run()
    assert (A, "broker-load-data", WITHDRAWN) in told(first)
    assert [broker for broker, _, _ in told(second)] == [B]
    assert second.missing.keys() == {A}
    assert "withdrew its figures 20 s ago" in second.missing[A]
    assert second.missing_codes == {A: "withdrawn"}
    assert second.answering == (A,), "it is alive"
    cluster.says(A, 3)
    assert cluster.run().missing == {}


def test_a_word_that_is_too_old_does_not_hold() -> None:
    cluster = both_known()
    cluster.says(B, 3)
    assert cluster.run(after_s=40).missing == {}
    done = cluster.run(after_s=20)
    assert "last published its load 70 s ago" in done.missing[A]
    assert (done.missing_codes, [one.broker for one in done.reports]) == ({A: "too-old"}, [B])


def test_who_is_gone_is_forgotten_but_its_last_word_is_passed_on() -> None:
    cluster = both_known()
    cluster.says(B, None)
    done = cluster.run(A)
    assert told(done)[0] == (B, "broker-load-data", WITHDRAWN)
    assert (done.answered, done.missing) == ((A,), {})
    back = cluster.run().missing[B]
    assert "since the collector started" in back, "when it comes back, it has said nothing yet"


def test_the_word_of_a_broker_that_does_not_answer_is_not_repeated() -> None:
    """Repeated, it would look fresh to rounds, which would give bundles to a broker that hangs."""
    cluster = both_known()
    cluster.silent = {B}
    done = cluster.run()
    assert told(done) == [(A, "broker-load-data", b'{"cpu":1}')]
    assert done.missing == {B: f"{B} does not answer"}
    assert [(report.broker, report.body) for report in done.owned] == [(A, b"{}")]
    cluster.silent = set()
    assert (B, "broker-load-data", b'{"cpu":2}') in told(cluster.run()), "it still holds"


def test_payloads_become_one_line() -> None:
    assert one_line(b"") == WITHDRAWN
    assert one_line(b'{\n "a" : 1.50 }') == b'{"a":1.50}', "figures are not touched"
    assert one_line(b"{nonsense") == b'"{nonsense"'


@pytest.fixture
def admin() -> Iterator[PulsarAdmin]:
    ports = {"brokerServicePort": "Optional[6650]", "brokerServicePortTls": "Optional.empty"}
    with (
        FakePulsar(FakeCluster(manager="extensible", configuration=ports)) as pulsar,
        closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as made,
    ):
        yield made


@pytest.mark.heavy
def test_a_broker_says_which_load_manager_runs_and_where_clients_connect(
    admin: PulsarAdmin,
) -> None:
    auto = PulsarSettings("c", "http://one:8080")
    named = replace(auto, load_manager="modular", service_url="pulsar://x:1,y:1")
    assert load_manager_of(admin, auto) == "extensible"
    assert load_manager_of(admin, named) == "modular"
    assert service_url_of(admin, auto) == "pulsar://127.0.0.1:6650", (
        "one does not answer; the brokers that are listed do"
    )
    assert service_url_of(admin, named) == "pulsar://x:1,y:1"
    with pytest.raises(Refused, match=r"name the binary protocol's address as pulsar\.service_url"):
        service_url_of(admin, PulsarSettings("c", "https://one:8443"))


def test_only_the_brokers_that_are_needed_are_asked_where_clients_connect() -> None:
    def ports(request: Request) -> Fault | None:
        """Every broker has a port of its own, which is that of its web service and 1."""
        if request.parts[-2:] != ["configuration", "runtime"]:
            return None
        port = request.broker.rpartition(":")[2] + "1"
        return answered(200, json.dumps({"brokerServicePort": port}).encode())

    def asked(*brokers: str) -> list[list[str]]:
        """What two addresses cost, whoever is asked first."""
        pulsar.calls.clear()
        settings = PulsarSettings("c", ",".join(f"http://{broker}" for broker in brokers))
        with closing(PulsarAdmin(settings)) as admin:
            assert service_url_of(admin, settings) == f"pulsar://{one}1,{two}1"
        return [request.parts for request, _ in pulsar.calls]

    with FakePulsar(FakeCluster(manager="extensible"), brokers=4) as pulsar:
        pulsar.faults = ports
        one, two, *_ = brokers = sorted(pulsar.cluster.brokers)
        configuration = ["brokers", "configuration", "runtime"]
        assert asked(*brokers) == [configuration] * 2
        assert asked(one) == [configuration, ["brokers", "c"], configuration]
