"""A frozen broker answers and stays listed, but no read of metadata ends there. Nothing else is
called frozen.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from pulsar_rebalancer.doctor.admin_and_clocks import check_freezes
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.frozen_brokers import FreezeWatch, FrozenReports, find_stuck, look, probing
from strategies.errors import BrokerUnavailable
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import APPLY, ONE, TWO, executor
from tests.unit.test_collector import REPORT

pytestmark = pytest.mark.heavy

PATIENCE_MS = 60_000
#: As without an answer in time, without the waiting.
NO_ANSWER = Fault(drop=True)
METADATA = ("tenants", "bookies", "broker-stats")


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(report=REPORT)) as running:
        one, two, _ = running.cluster.brokers
        running.cluster.owners.update({ONE: one, TWO: two})
        yield running


@pytest.fixture
def admin(pulsar: FakePulsar) -> Iterator[PulsarAdmin]:
    with closing(PulsarAdmin(probing(settings(pulsar), PATIENCE_MS))) as client:
        yield client


def settings(pulsar: FakePulsar) -> PulsarSettings:
    return PulsarSettings("c", pulsar.admin_urls, backoff_ms=0)


def frozen(*brokers: str) -> Callable[[Request], Fault | None]:
    return lambda request: (
        NO_ANSWER if request.broker in brokers and request.parts[0] in METADATA else None
    )


def stopped(*brokers: str) -> Callable[[Request], Fault | None]:
    return lambda request: NO_ANSWER if request.broker in brokers else None


def test_a_read_that_hangs_is_none(pulsar: FakePulsar) -> None:
    two = pulsar.cluster.brokers[1]
    for_ever = Fault(delay_s=3_600)
    pulsar.fail(lambda request: frozen(two)(request) is not None, for_ever)
    with closing(PulsarAdmin(probing(settings(pulsar), 2_000))) as hasty:
        assert look(hasty, two) == "stuck"


def test_a_stopped_or_dead_broker_is_not_frozen(pulsar: FakePulsar, admin: PulsarAdmin) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.faults = stopped(two)
    pulsar.kill(three, still_listed=True)
    assert [look(admin, broker) for broker in (one, two, three)] == ["reads", "silent", "silent"]
    assert not find_stuck(admin, (one, two, three), (one, two, three))


def test_one_slow_answer_is_no_freeze(pulsar: FakePulsar, admin: PulsarAdmin) -> None:
    two = pulsar.cluster.brokers[1]
    slow = iter([NO_ANSWER])
    pulsar.faults = lambda request: (
        next(slow, None) if request.broker == two and request.parts[0] == "tenants" else None
    )
    assert not find_stuck(admin, pulsar.cluster.brokers, pulsar.cluster.brokers)


def test_where_no_broker_reads_it_may_be_the_metadata_store(
    pulsar: FakePulsar, admin: PulsarAdmin
) -> None:
    pulsar.faults = frozen(*pulsar.cluster.brokers)
    found = find_stuck(admin, pulsar.cluster.brokers, pulsar.cluster.brokers)
    assert not found.others_read
    assert "check the metadata store" in str(found)


def test_a_frozen_broker_whose_web_threads_are_used_up_is_still_frozen(
    pulsar: FakePulsar, admin: PulsarAdmin
) -> None:
    brokers, two = pulsar.cluster.brokers, pulsar.cluster.brokers[1]
    watch = FreezeWatch(admin, every_s=0)
    pulsar.faults = frozen(two)
    assert watch.stuck(brokers).brokers == (two,)
    pulsar.faults = stopped(two)
    assert watch.stuck(brokers).brokers == (two,)
    pulsar.heal()
    assert not watch.stuck(brokers)


def test_looks_are_rare(pulsar: FakePulsar, admin: PulsarAdmin) -> None:
    watch = FreezeWatch(admin, every_s=3_600)
    for _ in range(5):
        watch.stuck(pulsar.cluster.brokers)
    assert len([request for request, _ in pulsar.calls if request.parts[0] == "tenants"]) == 3


def test_a_look_at_no_broker_says_nothing_about_the_next_seconds(
    pulsar: FakePulsar, admin: PulsarAdmin
) -> None:
    two = pulsar.cluster.brokers[1]
    watch = FreezeWatch(admin, every_s=3_600)
    pulsar.faults = frozen(two)
    assert not watch.stuck(())
    assert watch.stuck(pulsar.cluster.brokers).brokers == (two,)


def test_the_executor_moves_nothing_while_a_broker_is_frozen(
    pulsar: FakePulsar, admin: PulsarAdmin, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    watch = FreezeWatch(admin, every_s=0)
    control.send(command(ONE, one, two), command(TWO, two, one))
    pulsar.faults = frozen(three)
    with executor(pulsar, control, APPLY, frozen=lambda live: str(watch.stuck(live))) as working:
        working.step(0)
        assert control.verdicts() == [("refused", "broker-frozen")] * 2
        assert f"{three} is frozen" in str(control.outcomes()[0].reason)
        assert pulsar.asked("PUT") == []
        pulsar.heal()
        control.send(command(ONE, one, two))
        working.step(0)
    assert control.verdicts()[2:] == [("applied", "")]


def test_a_frozen_broker_is_asked_for_one_report_only(
    pulsar: FakePulsar, admin: PulsarAdmin
) -> None:
    two = pulsar.cluster.brokers[1]
    now = [0.0]
    reports, unanswered = FrozenReports(admin, lambda: now[0]), list[str]()

    def faults(request: Request) -> Fault | None:
        fault = frozen(two)(request)
        unanswered.extend([request.path] if fault is not None else [])
        return fault

    pulsar.faults = faults
    for now[0], reason in (
        (0.0, "closed the connection"),
        (30.0, "has finished no read of metadata for 30 s"),
        (60.0, f"{two} is frozen"),
        (61.0, "is frozen"),
    ):
        with pytest.raises(BrokerUnavailable, match=reason):
            reports.load_report(two)
    assert [path for path in unanswered if "load-report" in path] == [
        "/admin/v2/broker-stats/load-report"
    ]
    pulsar.heal()
    assert reports.load_report(two)


def test_doctor_names_it(pulsar: FakePulsar) -> None:
    brokers = tuple(pulsar.cluster.brokers)
    assert check_freezes(brokers, settings(pulsar), PATIENCE_MS).status == "ok"
    pulsar.faults = frozen(brokers[1])
    found = check_freezes(brokers, settings(pulsar), PATIENCE_MS)
    assert (found.check, found.status) == ("frozen brokers", "fail")
    assert f"{brokers[1]} is frozen" in found.text
    assert "restart that broker" in found.remedy
