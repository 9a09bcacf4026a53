"""Who owns a bundle, asked of brokers on real ports: by the owner's own word, and without acquiring
the bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from strategies.errors import BrokerUnavailable, NotOwned, Refused
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, Faults

BUNDLE = "t/ns/0x00000000_0x80000000"


@contextmanager
def running(**given: object) -> Iterator[FakePulsar]:
    """Three brokers, the second of which owns BUNDLE."""
    with FakePulsar(Cluster(**given)) as pulsar:  # type: ignore[arg-type]
        pulsar.cluster.owners[BUNDLE] = pulsar.cluster.brokers[1]
        yield pulsar


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with running() as found:
        yield found


def owner(
    pulsar: FakePulsar,
    likely: Sequence[str] = (),
    brokers: Sequence[str] | None = None,
    bundle: str = BUNDLE,
) -> str | None:
    with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls, backoff_ms=0))) as admin:
        return admin.owner(bundle, likely, brokers)


def redirecting(broker: str, to: str) -> Faults:
    """`broker` names `to` as the owner of every bundle."""
    redirect = Answer(
        307, location=f"http://{to}/admin/v2/non-persistent/{BUNDLE}?authoritative=false"
    )
    return lambda request: (
        Fault(instead=redirect)
        if request.broker == broker and "/non-persistent/" in request.target
        else None
    )


def test_an_owner_is_found_with_one_call_where_it_is_expected(pulsar: FakePulsar) -> None:
    one, two, _ = pulsar.cluster.brokers

    assert owner(pulsar, [two, one], pulsar.cluster.brokers) == two

    assert len(pulsar.calls) == 1
    pulsar.cluster.owners[BUNDLE] = None
    pulsar.cluster.lookups = False
    assert owner(pulsar, [two]) is None


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_an_owner_is_found_without_a_list_of_what_brokers_own(manager: str) -> None:
    with running(manager=manager) as pulsar:
        one, two, three = pulsar.cluster.brokers

        owners = [owner(pulsar, [likely]) for likely in (one, two, three)]

        assert owners == [two, two, two]
        assert pulsar.cluster.applied == []


def test_what_another_broker_still_has_in_its_cache_is_not_believed(pulsar: FakePulsar) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.faults = redirecting(three, to=two)
    pulsar.cluster.owners[BUNDLE], pulsar.cluster.lookups = None, False
    assert owner(pulsar, [three]) is None

    pulsar.cluster.owners[BUNDLE] = one
    with pytest.raises(NotOwned, match="ownership is changing"):
        owner(pulsar, [three], [three, two])
    assert owner(pulsar, [three], [three, one, two]) == one


def test_other_brokers_know_the_owner_that_does_not_answer(pulsar: FakePulsar) -> None:
    dead = pulsar.cluster.brokers[1]
    pulsar.kill(dead, still_listed=True)

    assert owner(pulsar, [dead]) == dead


def test_no_broker_says_who_owns_a_bundle(pulsar: FakePulsar) -> None:
    pulsar.faults = lambda request: Fault(drop="/non-persistent/" in request.target)

    with pytest.raises(
        BrokerUnavailable, match=f"closed the connection during the owner of {BUNDLE}"
    ):
        owner(pulsar)


def test_a_bundle_that_is_being_unloaded_has_no_certain_owner(pulsar: FakePulsar) -> None:
    pulsar.cluster.being_unloaded.add(BUNDLE)

    with pytest.raises(NotOwned, match="is being unloaded"):
        owner(pulsar)


def test_a_broker_that_names_itself_and_is_not_the_owner_is_not_believed(
    pulsar: FakePulsar,
) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.faults = redirecting(three, to=three)

    assert owner(pulsar, [three, one]) == two
    with pytest.raises(NotOwned, match=f"names {three} .*, which does not own it"):
        owner(pulsar, brokers=[three])


def test_an_owner_that_the_cluster_does_not_list_is_not_believed(pulsar: FakePulsar) -> None:
    strange = Fault(
        instead=Answer(307, location=f"http://127.0.0.1:1/admin/v2/non-persistent/{BUNDLE}")
    )
    pulsar.fail("/non-persistent/", strange)

    with pytest.raises(Refused, match=r"127\.0\.0\.1:1, which is no broker in the cluster's list"):
        owner(pulsar)


@pytest.mark.parametrize("gone", ["t/ns/0x00000000_0x10000000", "t/none/0x00000000_0x80000000"])
def test_no_broker_owns_what_does_not_exist(pulsar: FakePulsar, gone: str) -> None:
    assert owner(pulsar, bundle=gone) is None
