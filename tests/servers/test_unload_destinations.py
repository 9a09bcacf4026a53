"""What an unload with a destination really does on each load manager, without a client that would
look the bundle up at once.
"""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.skewed_users import look_up, topic_in
from tools.waiting import eventually

pytestmark = pytest.mark.servers
#: Generous: the machine may be busy with other things.
_LONG_S = 120.0
#: Brokers learn of a release a moment after it. One that has not yet may spend the destination on
#: an answer from memory.
_BUNDLES, _NEARLY_ALL = 12, 10


class Quiet:
    """A namespace that nobody uses: its bundles are owned only because a test has asked where a
    topic is.
    """

    def __init__(self, cluster: PulsarCluster, admin: PulsarAdmin, namespace: str) -> None:
        self.cluster, self.admin = cluster, admin
        cluster.namespace(namespace, _BUNDLES)
        self.bundles = [f"{namespace}/{range_}" for range_ in admin.ranges(namespace)]

    def look_up(self, bundle: str) -> str:
        """The owner, after a look-up; one more where a broker that had not noticed the release yet
        answered from memory.
        """
        owner: str | None = None

        def owned() -> bool:
            nonlocal owner
            look_up(self.cluster, [topic_in(bundle)])
            owner = self.admin.owner(bundle)
            return owner is not None

        eventually(owned, _LONG_S, f"nobody owns {bundle} after look-ups")
        return str(owner)

    def owns(self, broker: str, bundle: str) -> bool:
        return self.admin.owner(bundle) == broker

    def another(self, owner: str) -> str:
        return next(broker for broker in self.cluster.brokers if broker != owner)


@pytest.fixture
def modular_ones(pulsar: PulsarCluster, tmp_path: Path) -> Iterator[Quiet]:
    with closing(PulsarAdmin(pulsar.settings(tmp_path))) as admin:
        yield Quiet(pulsar, admin, f"t/{tmp_path.name}")


@pytest.fixture
def extensible_ones(guarded_pulsar: PulsarCluster, tmp_path: Path) -> Iterator[Quiet]:
    with closing(PulsarAdmin(guarded_pulsar.settings(tmp_path))) as admin:
        yield Quiet(guarded_pulsar, admin, f"t/{tmp_path.name}")


@pytest.mark.parametrize("owned", [True, False], ids=["owned", "nobody owns it"])
def test_modular_releases_the_bundle_and_the_next_look_up_goes_to_the_destination(
    modular_ones: Quiet, owned: bool
) -> None:
    arrived = 0
    for bundle, broker in zip(
        modular_ones.bundles, cycle(modular_ones.cluster.brokers), strict=False
    ):
        destination = modular_ones.another(modular_ones.look_up(bundle)) if owned else broker
        modular_ones.admin.unload(bundle, destination)
        assert modular_ones.admin.owner(bundle) is None
        arrived += modular_ones.look_up(bundle) == destination
    assert arrived >= _NEARLY_ALL


def test_modular_closes_a_bundle_whose_destination_owns_it(modular_ones: Quiet) -> None:
    bundle = modular_ones.bundles[0]
    owner = modular_ones.look_up(bundle)
    modular_ones.admin.unload(bundle, owner)
    assert modular_ones.admin.owner(bundle) is None


def test_extensible_hands_the_bundle_over_without_any_look_up(extensible_ones: Quiet) -> None:
    assert extensible_ones.bundles
    for bundle in extensible_ones.bundles[:4]:
        destination = extensible_ones.another(extensible_ones.look_up(bundle))
        extensible_ones.admin.unload(bundle, destination)
        eventually(
            partial(extensible_ones.owns, destination, bundle), _LONG_S, "it was not handed over"
        )


def test_extensible_does_nothing_with_a_bundle_nobody_owns(extensible_ones: Quiet) -> None:
    bundle = extensible_ones.bundles[0]
    extensible_ones.admin.unload(bundle, extensible_ones.cluster.brokers[0])
    assert extensible_ones.admin.owner(bundle) is None


def test_extensible_refuses_the_owner_as_destination(extensible_ones: Quiet) -> None:
    bundle = extensible_ones.bundles[0]
    owner = extensible_ones.look_up(bundle)
    with pytest.raises(AdminError, match="answered 500"):
        extensible_ones.admin.unload(bundle, owner)
    assert extensible_ones.admin.owner(bundle) == owner
