"""Who leads, since when a broker runs, and which load manager runs, as brokers say it."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LoadManager, configured_manager
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.errors import AdminError, BrokerUnavailable, Refused
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, answered

STARTED_S = 1_780_000_000.0


@pytest.fixture
def pulsar(manager: str) -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(manager=manager), 2) as fake:  # type: ignore[arg-type]
        yield fake


def asked(pulsar: FakePulsar, question: Callable[[PulsarAdmin], object]) -> object:
    settings = PulsarSettings("c", pulsar.admin_urls, attempts=1, backoff_ms=0)
    with closing(PulsarAdmin(settings)) as admin:
        return question(admin)


managers = pytest.mark.parametrize("manager", ["modular", "extensible"])
modular = pytest.mark.parametrize("manager", ["modular"])


@managers
def test_the_leader_is_a_broker_or_nobody(pulsar: FakePulsar) -> None:
    assert asked(pulsar, PulsarAdmin.leader) == pulsar.cluster.brokers[0]
    pulsar.cluster.led = False
    assert asked(pulsar, PulsarAdmin.leader) is None


@modular
@pytest.mark.parametrize("url", ["http://b-1:8080", "http://b-1:8080/"])
def test_older_brokers_name_the_leader_by_its_url(pulsar: FakePulsar, url: str) -> None:
    pulsar.fail("", answered(200, b'{"serviceUrl": "%s"}' % url.encode()))
    assert asked(pulsar, PulsarAdmin.leader) == "b-1:8080"


@modular
@pytest.mark.parametrize("body", [b"{}", b"[]", b"", b'{"brokerId": 5}', b'{"brokerId": "b 1"}'])
def test_an_answer_that_names_no_broker_is_an_error(pulsar: FakePulsar, body: bytes) -> None:
    pulsar.fail("", answered(200, body))
    with pytest.raises(Refused, match="The answer to the leader is not one of Pulsar's admin API"):
        asked(pulsar, PulsarAdmin.leader)


@managers
def test_a_leader_that_nobody_can_name_is_an_error(pulsar: FakePulsar) -> None:
    pulsar.fail("", Fault(drop=True))
    with pytest.raises(AdminError):
        asked(pulsar, PulsarAdmin.leader)


@managers
def test_a_broker_says_when_it_started(pulsar: FakePulsar) -> None:
    """Modular brokers in their load report, to the millisecond; others in their metrics."""
    one, two = pulsar.cluster.brokers
    pulsar.cluster.started_s = {one: STARTED_S}
    assert asked(pulsar, lambda admin: admin.started_ms(one)) == int(STARTED_S * 1000)
    assert asked(pulsar, lambda admin: admin.started_ms(two)) is None


@modular
@pytest.mark.parametrize(
    "start", [b'{"startTimestamp": 0}', b'{"startTimestamp": "5"}', b"[", b"{}"]
)
def test_a_report_without_a_start_leaves_the_metrics(pulsar: FakePulsar, start: bytes) -> None:
    one, _ = pulsar.cluster.brokers
    pulsar.cluster.started_s = {one: STARTED_S}
    pulsar.fail("load-report", answered(200, start))
    assert asked(pulsar, lambda admin: admin.started_ms(one)) == int(STARTED_S * 1000)


@modular
@pytest.mark.parametrize("dead", [True, False])
def test_a_lost_report_does_not_become_the_start_of_the_process(
    pulsar: FakePulsar, *, dead: bool
) -> None:
    """The process began before the load manager: two sources in turn would look like a restart."""
    one, _ = pulsar.cluster.brokers
    pulsar.cluster.started_s = {one: STARTED_S}
    pulsar.fail("load-report", Fault(drop=True))
    if dead:
        pulsar.kill(one, still_listed=True)
    with pytest.raises(BrokerUnavailable):
        asked(pulsar, lambda admin: admin.started_ms(one))


@pytest.mark.parametrize("manager", ["extensible"])
@pytest.mark.parametrize(
    ("line", "ms"),
    [
        (b"process_start_time_seconds 1.780000000512E9\n", 1_780_000_000_512),
        (b'process_start_time_seconds{cluster="c"} 1.78E9 1700000000000\n', 1_780_000_000_000),
        (b"# process_start_time_seconds 5\nmy_process_start_time_seconds 5\n", None),
        (b"process_start_time_seconds 0\n", None),
        (b"process_start_time_seconds 9E99\n", None),
    ],
)
def test_forms_of_the_start_in_the_metrics(pulsar: FakePulsar, line: bytes, ms: int | None) -> None:
    one, _ = pulsar.cluster.brokers
    pulsar.fail(lambda request: request.path == "/metrics/", answered(200, b"x 1\n" + line))
    assert asked(pulsar, lambda admin: admin.started_ms(one)) == ms


_PACKAGE = "org.apache.pulsar.broker.loadbalance"


@modular
@pytest.mark.parametrize(
    ("class_name", "found"),
    [
        (f"{_PACKAGE}.impl.ModularLoadManagerImpl", "modular"),
        (f"{_PACKAGE}.impl.ModularLoadManagerWrapper", "modular"),
        (f"{_PACKAGE}.extensions.ExtensibleLoadManagerImpl", "extensible"),
        (f"{_PACKAGE}.impl.SimpleLoadManagerImpl", None),
        # The name of a package says nothing.
        ("org.example.ModularLoadManager.MyManager", None),
        ("", None),
    ],
)
def test_the_class_names_the_manager(
    pulsar: FakePulsar, class_name: str, found: LoadManager | None
) -> None:
    pulsar.cluster.configuration["loadManagerClassName"] = class_name
    assert asked(pulsar, configured_manager) == (found, class_name.rpartition(".")[2])
