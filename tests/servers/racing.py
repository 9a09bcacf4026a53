"""Look-ups that race for a bundle that has just been unloaded: on a modular cluster a leader keeps
its destination for the first of them only (apache/pulsar 24884).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import httpx

from strategies.bundles.ranges import parse_bundle, topic_hash
from tests.servers.pulsar_cluster import PulsarCluster

#: Look-ups at a time of clients that go where they are sent, and of tools that only read the
#: answer: these spend a destination without taking the bundle there.
_CLIENTS, _TOOLS = 4, 2
_EVERY_S = 0.005
_ANSWER_S = 10.0


@dataclass
class Race:
    """`bundle`: the one that is looked up; None while nobody is interested."""

    cluster: PulsarCluster
    bundle: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def about(self, bundle: str) -> Iterator[None]:
        """Look-ups of this bundle, on every broker."""
        self.bundle = bundle
        try:
            yield
        finally:
            self.bundle = None

    def look_up(self, number: int, *, follow: bool) -> None:
        """Looks up again and again, until the race has ended."""
        broker = self.cluster.brokers[number % len(self.cluster.brokers)]
        with httpx.Client(timeout=_ANSWER_S, follow_redirects=follow) as client:
            while not self.ended.wait(_EVERY_S):
                if (bundle := self.bundle) is not None:
                    topic = topics_in(bundle, number + 1)[number].replace("://", "/")
                    with suppress(httpx.HTTPError):
                        client.get(f"http://{broker}/lookup/v2/topic/{topic}")


@contextmanager
def racing(cluster: PulsarCluster) -> Iterator[Race]:
    """Threads that look up; they have ended behind the block."""
    race = Race(cluster)
    threads = [
        threading.Thread(
            target=race.look_up, args=(number,), kwargs={"follow": number < _CLIENTS}, name="race"
        )
        for number in range(_CLIENTS + _TOOLS)
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
    """Connected producers of so many topics of each bundle, in three clients."""
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
