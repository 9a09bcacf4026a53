"""Users of a Pulsar cluster whose topics are busiest where one broker is: one topic in each bundle,
with a producer and a consumer.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path

import httpx

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.bundles import parse_bundle, topic_hash
from strategies.errors import BrokerUnavailable, NotOwned
from tools.servers.logged_process import dying_with_us
from tools.servers.pulsar_cluster import PulsarCluster, token_of
from tools.traffic.traffic import READY
from tools.traffic.traffic_log import TrafficLog, read_traffic
from tools.waiting import eventually

#: How much busier the bundles of a broker are than those of the idlest one: the broker with most
#: bundles first.
SKEW = (6.0, 3.0, 2.0, 1.0)
MESSAGE_BYTES = 1024
_READY_S, _END_S = 120.0, 60.0


@dataclass(frozen=True)
class Users:
    """`rates`: bundle → msg/s of its only topic; `topics`: bundle → that topic; `later`: the rates
    after a change.
    """

    cluster: PulsarCluster
    admin: PulsarAdmin
    rates: Mapping[str, float]
    topics: Mapping[str, str]
    process: subprocess.Popen[bytes]
    log: Path
    later: Mapping[str, float]

    def changed(self) -> "Users":
        """From now on they send with the later rates."""
        self.process.send_signal(signal.SIGUSR1)
        return replace(self, rates=self.later)

    def owners(self) -> dict[str, str]:
        """Bundle → broker; one on its way has none."""
        return owners_of(self.admin, self.rates)

    def load(self) -> dict[str, float]:
        """Live broker → msg/s that are produced to its bundles."""
        owners = self.owners()
        return {
            broker: sum(rate for bundle, rate in self.rates.items() if owners.get(bundle) == broker)
            for broker in self.admin.brokers()
        }

    def spread(self) -> float:
        """The spread of the present load."""
        return spread_of(self.load())

    def end(self) -> TrafficLog:
        """No more is sent; what was acknowledged is waited for."""
        self.process.terminate()
        assert self.process.wait(_END_S) == 0
        return read_traffic(self.log, list(self.topics.values()))


def spread_of(load: Mapping[str, float]) -> float:
    """The busiest live broker's traffic by the idlest one's; all messages are equally long."""
    return max(load.values()) / min(load.values()) if min(load.values()) else inf


@contextmanager
def skewed_users(
    cluster: PulsarCluster,
    folder: Path,
    namespace: str,
    *,
    bundles: int = 64,
    msgs: float = 300.0,
    shares: Sequence[float] | None = None,
    homes: Sequence[str] | None = None,
    message_bytes: int = MESSAGE_BYTES,
    weights: Callable[[Sequence[str]], Sequence[float]] | None = None,
    later: Callable[[Sequence[str]], Sequence[float]] | None = None,
    scattered: float = 0.0,
) -> Iterator[Users]:
    """Running traffic of `msgs` messages per second in a namespace of its own; ends with the
    context.

    `shares`: of the traffic, one for each broker that has bundles; without them the number of its
    bundles counts too. `homes`: brokers that take the bundles in turns, four at a time; without
    them brokers place the bundles, unless one of those with a share got none. `weights`: of the
    bundles instead of a skew; `later`: the same after `Users.changed`. `scattered`: part of the
    time between two messages of a topic by which it varies; brokers need more for messages of many
    topics that do not arrive together.
    """
    cluster.namespace(namespace, bundles)
    with closing(PulsarAdmin(cluster.settings(folder))) as admin:
        names = [f"{namespace}/{range_}" for range_ in admin.ranges(namespace)]
        topics = {bundle: topic_in(bundle) for bundle in names}
        look_up(cluster, topics.values())
        owners = owners_of(admin, names)
        if homes is None and len(shares or ()) > len({*owners.values()}):
            homes = cluster.brokers  # a broker that has just started may get no bundle
        if homes is not None:
            settle(cluster, admin, topics, homes)
            owners = owners_of(admin, names)
        rates = skewed(owners, msgs) if shares is None else skewed_by(shares, owners, msgs)
        if weights is not None:
            rates = _weighed(names, weights, msgs)
        then = rates if later is None else _weighed(names, later, msgs)
        sent = [{topics[bundle]: plan[bundle] for bundle in names} for plan in (rates, then)]
        more = {"message_bytes": message_bytes, "scattered": scattered}
        process = _start(cluster, sent[0], sent[1], folder, more)
        try:
            yield Users(cluster, admin, rates, topics, process, folder / "traffic.log", then)
        finally:
            process.kill()
            process.wait()


def skewed(owners: Mapping[str, str], msgs: float) -> dict[str, float]:
    """Bundle → msg/s, `msgs` in all: bundles of one broker differ by up to four times, brokers by
    SKEW.
    """
    crowds = sorted(
        dict.fromkeys(owners.values()),
        key=lambda broker: (-list(owners.values()).count(broker), broker),
    )
    busy = {broker: SKEW[min(rank, len(SKEW) - 1)] for rank, broker in enumerate(crowds)}
    weights = {
        bundle: busy[broker] * (1 + number % 4)
        for number, (bundle, broker) in enumerate(sorted(owners.items()))
    }
    total = sum(weights.values())
    return {bundle: msgs * weight / total for bundle, weight in weights.items()}


def skewed_by(shares: Sequence[float], owners: Mapping[str, str], msgs: float) -> dict[str, float]:
    """The same with equal skew wherever bundles began: each broker has its share, by the order of
    names.
    """
    busy = dict(zip(sorted(set(owners.values())), shares, strict=True))
    weights = {bundle: 1.0 + number % 4 for number, bundle in enumerate(sorted(owners))}
    totals = {
        broker: sum(weights[bundle] for bundle, owner in owners.items() if owner == broker)
        for broker in busy
    }
    return {
        bundle: msgs * busy[owner] * weights[bundle] / totals[owner]
        for bundle, owner in owners.items()
    }


def owners_of(admin: PulsarAdmin, bundles: Iterable[str]) -> dict[str, str]:
    """Bundle → broker, without those that no broker owns or that are on their way."""

    def owner(bundle: str) -> str | None:
        with suppress(NotOwned, BrokerUnavailable):
            return admin.owner(bundle, brokers=brokers)
        return None

    brokers, asked = admin.brokers(), list(bundles)
    with ThreadPoolExecutor(8) as pool:
        return {
            bundle: broker
            for bundle, broker in zip(asked, pool.map(owner, asked), strict=True)
            if broker is not None
        }


def topic_in(bundle: str) -> str:
    """A topic whose name falls into the bundle."""
    parsed = parse_bundle(bundle)
    assert parsed is not None
    namespace, range_ = parsed
    number = 0
    while topic_hash(f"persistent://{namespace}/topic-{number}") not in range_:
        number += 1
    return f"persistent://{namespace}/topic-{number}"


def settle(
    cluster: PulsarCluster, admin: PulsarAdmin, topics: Mapping[str, str], homes: Sequence[str]
) -> None:
    """Moves bundles until each is at home, so that every namespace starts alike."""

    def there(bundle: str, home: str) -> bool:
        if admin.owner(bundle) != home:
            admin.unload(bundle, home)
            look_up(cluster, [topics[bundle]])
        return admin.owner(bundle) == home

    for number, bundle in enumerate(sorted(topics)):
        home = homes[number // 4 % len(homes)]
        eventually(partial(there, bundle, home), _READY_S, f"{bundle} does not go to {home}", 0.2)


def look_up(cluster: PulsarCluster, topics: Iterable[str]) -> None:
    """Asks where topics are, which makes brokers take their bundles; again where a broker could not
    say.
    """
    headers = {"Authorization": f"Bearer {token_of('admin')}"} if cluster.guarded else {}

    def answered(topic: str) -> bool:
        url = f"http://{cluster.brokers[0]}/lookup/v2/topic/{topic.replace('://', '/')}"
        while (answer := client.get(url)).is_redirect:
            url = answer.headers["Location"]
        return answer.status_code == 200

    with httpx.Client(headers=headers, timeout=60) as client:
        for topic in topics:
            eventually(partial(answered, topic), _READY_S, f"no broker says where {topic} is", 0.2)


def _weighed(
    names: Sequence[str], weights: Callable[[Sequence[str]], Sequence[float]], msgs: float
) -> dict[str, float]:
    given = weights(names)
    return {bundle: msgs * weight / sum(given) for bundle, weight in zip(names, given, strict=True)}


def _start(
    cluster: PulsarCluster,
    rates: Mapping[str, float],
    later: Mapping[str, float],
    folder: Path,
    more: Mapping[str, float],
) -> subprocess.Popen[bytes]:
    plan = {
        "url": cluster.service_url,
        "token": token_of("admin") if cluster.guarded else None,
        "rates": dict(rates),
        "later": dict(later),
        **more,
    }
    (folder / "traffic.json").write_text(json.dumps(plan), "utf-8")
    command = [
        *dying_with_us(),
        sys.executable,
        "-m",
        "tools.traffic.traffic",
        str(folder / "traffic.json"),
        str(folder / "traffic.log"),
    ]
    said = folder / "traffic.out"
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    eventually(
        lambda: process.poll() is not None or READY in said.read_text("utf-8"),
        _READY_S,
        f"no traffic: {said}",
    )
    assert process.poll() is None, said.read_text("utf-8")
    return process
