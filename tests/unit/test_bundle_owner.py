"""Who owns a bundle by its own word, without acquiring it; and who owns all bundles."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from sinks.collector.extensible_poll import OwnerPoll
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.errors import BrokerUnavailable, NotOwned, Refused, Unauthorized
from tests.pulsar_fake.model import Answer, Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, answered
from tests.world.services import asks_owner

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


def redirecting(to: str) -> Fault:
    location = f"http://{to}/admin/v2/non-persistent/{BUNDLE}?authoritative=false"
    return Fault(instead=Answer(307, location=location))


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
        brokers = pulsar.cluster.brokers
        assert [owner(pulsar, [likely]) for likely in brokers] == [brokers[1]] * 3
        assert pulsar.cluster.applied == []


def test_what_another_broker_still_has_in_its_cache_is_not_believed(pulsar: FakePulsar) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.fail(lambda it: it.broker == three and asks_owner(it), redirecting(to=two))
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
    pulsar.fail(asks_owner, Fault(drop=True))
    says = f"closed the connection during the owner of {BUNDLE}"
    with pytest.raises(BrokerUnavailable, match=says):
        owner(pulsar)


def test_a_bundle_that_is_being_unloaded_has_no_certain_owner(pulsar: FakePulsar) -> None:
    pulsar.cluster.being_unloaded.add(BUNDLE)
    with pytest.raises(NotOwned, match="is being unloaded"):
        owner(pulsar)


def test_a_broker_that_names_itself_and_is_not_the_owner_is_not_believed(
    pulsar: FakePulsar,
) -> None:
    one, two, three = pulsar.cluster.brokers
    pulsar.fail(lambda it: it.broker == three and asks_owner(it), redirecting(to=three))
    assert owner(pulsar, [three, one]) == two
    with pytest.raises(NotOwned, match=f"names {three} .*, which does not own it"):
        owner(pulsar, brokers=[three])


def test_an_owner_that_the_cluster_does_not_list_is_not_believed(pulsar: FakePulsar) -> None:
    pulsar.fail(asks_owner, redirecting(to="127.0.0.1:1"))
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1, which is no broker in the cluster's list"):
        owner(pulsar)


@pytest.mark.parametrize("gone", ["t/ns/0x00000000_0x10000000", "t/none/0x00000000_0x80000000"])
def test_no_broker_owns_what_does_not_exist(pulsar: FakePulsar, gone: str) -> None:
    assert owner(pulsar, bundle=gone) is None


X, Y, Z = (
    f"t/{name}"
    for name in ("n/0x00000000_0x80000000", "n/0x80000000_0xffffffff", "o/0x00000000_0xffffffff")
)


@dataclass
class Scene:
    """Three brokers; the first has X and Y, the second Z. Bundles are asked for one by one."""

    pulsar: FakePulsar
    admin: PulsarAdmin

    def __post_init__(self) -> None:
        self.one, self.two, self.three = self.pulsar.cluster.brokers
        self.owners = self.pulsar.cluster.owners
        self.owners |= {X: self.one, Y: self.one, Z: self.two}
        self.poll = self.limited(budget_s=60.0)

    def limited(self, budget_s: float, at_once: int = 1) -> OwnerPoll:
        """A second passes at each look at the clock."""
        seconds = iter(range(10**6))
        return OwnerPoll(self.admin, at_once, budget_s, lambda: 1, lambda: next(seconds))

    def told(self, *brokers: str) -> dict[str, list[str]]:
        return {
            report.broker: list(json.loads(report.body))
            for report in self.poll.run(brokers or (self.one, self.two, self.three))
        }


@pytest.fixture(params=["modular", "extensible"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with (
        FakePulsar(Cluster(manager=request.param)) as pulsar,
        closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls, attempts=1))) as admin,
    ):
        yield Scene(pulsar, admin)


def test_all_is_told_once_and_then_what_changes(scene: Scene) -> None:
    assert scene.told() == {scene.one: [X, Y], scene.two: [Z], scene.three: []}
    assert scene.told() == {}
    scene.owners[X] = scene.three
    assert scene.told() == {scene.one: [Y], scene.three: [X]}


def test_a_bundle_without_owner_a_deleted_one_and_halves(scene: Scene) -> None:
    scene.told()
    scene.pulsar.cluster.lookups = False
    scene.owners[X] = None
    assert scene.told() == {scene.one: [Y]}
    del scene.owners[Z]
    assert scene.told() == {scene.two: []}
    del scene.owners[Y]
    halves = ["t/n/0x80000000_0xc0000000", "t/n/0xc0000000_0xffffffff"]
    scene.owners |= dict.fromkeys(halves, scene.one)
    assert scene.told() == {scene.one: halves}


def test_a_known_owner_costs_one_call_and_no_look_acquires_or_releases_a_bundle(
    scene: Scene,
) -> None:
    scene.told()
    scene.pulsar.calls.clear()
    scene.told()
    looks = [request for request, _ in scene.pulsar.calls if asks_owner(request)]
    assert [request.broker for request in looks] == [scene.one, scene.one, scene.two]
    assert scene.pulsar.cluster.applied == []
    assert {request.method for request, _ in scene.pulsar.calls} == {"GET"}


def test_the_last_known_owner_stays_while_ownership_changes_or_the_owner_is_silent(
    scene: Scene,
) -> None:
    scene.told()
    scene.pulsar.cluster.being_unloaded.add(X)
    assert scene.told() == {}
    scene.pulsar.cluster.being_unloaded.clear()
    scene.pulsar.kill(scene.two, still_listed=True)
    assert scene.told(scene.one, scene.three) == {}
    assert scene.told() == {scene.two: [Z]}, "a broker that was missing is told again"


@pytest.mark.parametrize("at_once", [1, 64])
def test_many_bundles_are_looked_at_in_several_passes(scene: Scene, at_once: int) -> None:
    scene.poll = scene.limited(1.0, at_once)
    assert scene.told() == {scene.one: [X], scene.two: [], scene.three: []}
    assert scene.told() == {scene.one: [X, Y]}
    assert scene.told() == {scene.two: [Z]}
    scene.owners[Y] = scene.two
    assert scene.told() == {}, "the end of a turn"
    assert [scene.told() for _ in range(2)] == [{}, {scene.one: [X], scene.two: [Y, Z]}]


def test_a_cluster_that_does_not_list_its_namespaces_keeps_what_is_known(scene: Scene) -> None:
    scene.told()
    scene.pulsar.fail("/namespaces/t", answered(503))
    assert scene.told() == {}
    scene.pulsar.heal()
    scene.owners[X] = scene.two
    assert scene.told() == {scene.one: [Y], scene.two: [X, Z]}


def test_nothing_is_asked_when_no_broker_answers(scene: Scene) -> None:
    scene.told()
    scene.pulsar.calls.clear()
    assert scene.poll.run(()) == ()
    assert scene.pulsar.calls == []


def test_a_wrong_token_is_an_error(scene: Scene) -> None:
    scene.pulsar.cluster.token = "another"
    with pytest.raises(Unauthorized):
        scene.told()
