"""Look-ups that race for a bundle that has just been unloaded: on a modular cluster a leader keeps
its destination for the first of them only (apache/pulsar 24884).
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection
from threading import Event, Thread

import httpx

from strategies.bundles import parse_bundle, topic_hash
from tools.servers.pulsar_cluster import PulsarCluster

#: How many at a time: clients that go where they are sent, and tools that only read the answer, and
#: so spend a destination without taking the bundle there.
_CLIENTS, _TOOLS = 2, 4
_EVERY_S = 0.005
_ANSWER_S = 10.0


@dataclass
class Race:
    """`bundle`: the one that is looked up; None while no look-up is wanted."""

    cluster: PulsarCluster
    bundle: str | None = None
    ended: Event = field(default_factory=Event)

    @contextmanager
    def about(self, bundle: str) -> Iterator[None]:
        """Look-ups of this bundle, on every broker."""
        self.bundle = bundle
        try:
            yield
        finally:
            self.bundle = None

    def as_client(self, number: int) -> None:
        """Looks up at one of the brokers and goes where it is sent, until the race has ended."""
        broker = self.cluster.brokers[number % len(self.cluster.brokers)]
        with httpx.Client(timeout=_ANSWER_S, follow_redirects=True) as client:
            while not self.ended.wait(_EVERY_S):
                if (bundle := self.bundle) is not None:
                    with suppress(httpx.HTTPError):
                        client.get(f"http://{broker}{_path(bundle)}")

    def as_tool(self, leader: str) -> None:
        """Looks up at the leader and goes nowhere, until the race has ended."""
        while not self.ended.wait(_EVERY_S):
            with closing(HTTPConnection(leader, timeout=_ANSWER_S)) as connection:
                while (bundle := self.bundle) is not None and not self.ended.is_set():
                    connection.request("GET", _path(bundle))
                    connection.getresponse().read()
                    self.ended.wait(_EVERY_S / 5)


@contextmanager
def racing(cluster: PulsarCluster, leader: str) -> Iterator[Race]:
    """Threads that look up; they have ended behind the block."""
    race = Race(cluster)
    threads = [
        *(Thread(target=race.as_client, args=(number,)) for number in range(_CLIENTS)),
        *(Thread(target=race.as_tool, args=(leader,)) for _ in range(_TOOLS)),
    ]
    for thread in threads:
        thread.start()
    try:
        yield race
    finally:
        race.ended.set()
        for thread in threads:
            thread.join()


@contextmanager
def producers_of(cluster: PulsarCluster, bundles: Sequence[str], each: int) -> Iterator[None]:
    """Connected producers of `each` topics of each bundle, in three clients."""
    with (
        closing(cluster.client()) as one,
        closing(cluster.client()) as two,
        closing(cluster.client()) as three,
    ):
        clients = (one, two, three)
        made = [
            clients[number % 3].create_producer(topic)
            for bundle in bundles
            for number, topic in enumerate(topics_in(bundle, each))
        ]
        yield
        del made  # until here: a producer that is forgotten closes, and looks nothing up


@lru_cache
def _path(bundle: str) -> str:
    return f"/lookup/v2/topic/{topics_in(bundle, 1)[0].replace('://', '/')}"


def topics_in(bundle: str, count: int) -> list[str]:
    """Topics whose names fall into the bundle."""
    parsed = parse_bundle(bundle)
    assert parsed is not None
    namespace, range_ = parsed
    found: list[str] = []
    number = 0
    while len(found) < count:
        topic = f"persistent://{namespace}/topic-{number}"
        if topic_hash(topic) in range_:
            found.append(topic)
        number += 1
    return found
