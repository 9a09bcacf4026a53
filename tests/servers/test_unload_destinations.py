"""What an unload with a destination really does on each load manager, without a client that would look the bundle up at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sinks.pulsar_admin import PulsarAdmin
from strategies.errors import AdminError
from tests.servers.jvm import eventually
from tests.servers.pulsar_cluster import PulsarCluster
from tests.servers.skewed_users import look_up, topic_in

pytestmark = pytest.mark.servers


class Quiet:
    """A namespace that nobody uses: its bundles are owned only because a test has asked where a topic is."""

    def __init__(self, cluster: PulsarCluster, admin: PulsarAdmin, namespace: str) -> None:
        self.cluster, self.admin = cluster, admin
        cluster.namespace(namespace, 4)
        self.bundles = [f"{namespace}/{range_}" for range_ in admin.ranges(namespace)]

    def look_up(self, bundle: str) -> str:
        """The owner, after a look-up."""
        look_up(self.cluster, [topic_in(bundle)])
        eventually(lambda: self.admin.owner(bundle) is not None, 20, f"nobody owns {bundle} after a look-up")
        return str(self.admin.owner(bundle))

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


def test_modular_releases_the_bundle_and_the_next_look_up_goes_to_the_destination(modular_ones: Quiet) -> None:
    for bundle in modular_ones.bundles:
        destination = modular_ones.another(modular_ones.look_up(bundle))
        modular_ones.admin.unload(bundle, destination)
        assert modular_ones.admin.owner(bundle) is None
        assert modular_ones.look_up(bundle) == destination


def test_modular_remembers_a_destination_for_a_bundle_nobody_owns(modular_ones: Quiet) -> None:
    for bundle, destination in zip(modular_ones.bundles, modular_ones.cluster.brokers, strict=False):
        modular_ones.admin.unload(bundle, destination)
        assert modular_ones.admin.owner(bundle) is None
        assert modular_ones.look_up(bundle) == destination


def test_modular_closes_a_bundle_whose_destination_owns_it(modular_ones: Quiet) -> None:
    bundle = modular_ones.bundles[0]
    owner = modular_ones.look_up(bundle)
    modular_ones.admin.unload(bundle, owner)
    assert modular_ones.admin.owner(bundle) is None


def test_extensible_hands_the_bundle_over_without_any_look_up(extensible_ones: Quiet) -> None:
    for bundle in extensible_ones.bundles:
        destination = extensible_ones.another(extensible_ones.look_up(bundle))
        extensible_ones.admin.unload(bundle, destination)
        eventually(lambda bundle=bundle, to=destination: extensible_ones.admin.owner(bundle) == to, 20, "it was not handed over")  # type: ignore[misc]


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
