"""Users of a Pulsar namespace whose clients stay connected: every bundle has an owner."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinks.pulsar_api.admin import PulsarAdmin
from tools.servers.pulsar_cluster import PulsarCluster
from tools.waiting import eventually

if TYPE_CHECKING:
    import pulsar


#: Generous: the machine may be busy with other things.
_LONG_S = 120.0


@dataclass(frozen=True)
class Bundles:
    """The bundles of one namespace, all owned when a test begins. Whatever releases one, clients
    look it up again at once.
    """

    cluster: PulsarCluster
    admin: PulsarAdmin
    namespace: str

    @property
    def all(self) -> tuple[str, ...]:
        """Their names, ascending."""
        return tuple(f"{self.namespace}/{range_}" for range_ in self.admin.ranges(self.namespace))

    def owner(self, bundle: str) -> str:
        """Waits until there is one."""
        owner: str | None = None

        def found() -> bool:
            nonlocal owner
            owner = self.admin.owner(bundle)
            return owner is not None

        eventually(found, _LONG_S, f"no broker owns {bundle}")
        return str(owner)

    def others(self, bundle: str) -> list[str]:
        """Live brokers that do not own it."""
        owner = self.owner(bundle)
        return [broker for broker in self.cluster.brokers if broker != owner]

    def move(self, bundle: str, destination: str) -> None:
        """Unloads it until it is there: of several look-ups at once, a modular leader answers only
        the first with the destination.
        """

        def there() -> bool:
            if self.owner(bundle) != destination:
                self.admin.unload(bundle, destination)
            return self.owner(bundle) == destination

        eventually(there, _LONG_S, f"{bundle} does not go to {destination}", 0.5)

    def move_away(self, bundle: str) -> None:
        """Unloads it until another broker has it, whichever."""
        source = self.owner(bundle)

        def gone() -> bool:
            self.admin.unload(bundle, self.others(bundle)[0])
            return self.owner(bundle) != source

        eventually(gone, _LONG_S, f"{bundle} does not leave {source}", 0.5)

    def asked(self, verb: str, bundle: str) -> int:
        """How often a broker was asked to `unload` or `split` a bundle, by the log of its web
        service, which 5.0 writes in another form.
        """
        path = rf"/admin/v2/namespaces/{re.escape(bundle)}/{verb}"
        log = self.cluster.server.log.read_text("utf-8", errors="replace")
        return len(re.findall(rf"PUT {path}|method=PUT,.* uri=http://[^/]+{path}", log))


@contextmanager
def bundles(cluster: PulsarCluster, namespace: str, count: int = 4) -> Iterator[Bundles]:
    """A namespace whose every bundle has a topic with a connected producer."""
    cluster.namespace(namespace, count)
    with _admin(cluster) as admin, closing(cluster.client()) as client:
        made = Bundles(cluster, admin, namespace)
        producers: list[pulsar.Producer] = []
        # Which bundle a topic falls into is up to the hash of its name.
        while not all(made.admin.owner(bundle) for bundle in made.all):
            assert len(producers) < 100, f"not every bundle of {namespace} has an owner"
            topics = [
                f"persistent://{namespace}/topic-{len(producers) + more}"
                for more in range(2 * count)
            ]
            producers += [client.create_producer(topic) for topic in topics]
        yield made
        del producers  # until here: one that is forgotten closes, and looks nothing up


@contextmanager
def traffic(used: Bundles) -> Iterator[None]:
    """Every broker has one of the bundles, every bundle gets messages: who is idle reports once a
    minute, and leaves idle bundles out.
    """
    for bundle, broker in zip(used.all, used.cluster.brokers, strict=False):
        used.move(bundle, broker)
    topics = [f"persistent://{used.namespace}/topic-{n}" for n in range(4 * len(used.all))]
    with sending(used.cluster, topics):
        yield


@contextmanager
def sending(cluster: PulsarCluster, topics: Sequence[str]) -> Iterator[None]:
    """Producers of these topics, each with ten messages a second."""
    ended = threading.Event()
    with closing(cluster.client()) as client:
        producers = [client.create_producer(topic) for topic in topics]

        def send() -> None:
            while not ended.wait(0.1):
                for producer in producers:
                    producer.send_async(bytes(1000), None)

        sender = threading.Thread(target=send, name="sending")
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()


@contextmanager
def _admin(cluster: PulsarCluster) -> Iterator[PulsarAdmin]:
    folder = cluster.server.folder
    with closing(PulsarAdmin(cluster.settings(folder))) as admin:
        yield admin
