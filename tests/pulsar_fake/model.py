"""A Pulsar cluster as its admin API shows it: who owns what, and the answers to calls as observed
on Pulsar 4.2.4.

Both load managers: `modular` unloads through the leader and leaves the bundle to the next look-up,
`extensible` hands it over at once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from strategies.bundles import parse_bundle, topic_hash

_RANGE = re.compile(r"0x[0-9a-f]{8}_0x[0-9a-f]{8}")
_MANAGERS = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
_DIVIDE = ("range_equally", "topic_count_equally", "specified_positions", "flow_or_qps_equally")


@dataclass(frozen=True, slots=True)
class Request:
    """What a broker was asked, as it came over the wire."""

    broker: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def parts(self) -> list[str]:
        return [unquote(part) for part in self.path.removeprefix("/admin/v2/").split("/")]

    def query(self, name: str) -> str | None:
        return parse_qs(urlsplit(self.target).query).get(name, [None])[0]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """One thing that really happened to a bundle."""

    action: Literal["unload", "split"]
    bundle: str
    source: str | None
    destination: str | None


@dataclass
class Cluster:
    """State of the cluster. `lookups`: clients are there, so that a released bundle is looked up,
    and owned, at the next call. `started_s`: when brokers started, for those that say it; `led`:
    whether there is a leader.
    """

    name: str = "c"
    manager: Literal["modular", "extensible"] = "modular"
    token: str | None = None
    lookups: bool = True
    brokers: list[str] = field(default_factory=list)
    owners: dict[str, str | None] = field(default_factory=dict)
    wanted: dict[str, str] = field(default_factory=dict)
    policies: dict[str, object] = field(default_factory=dict)
    domains: dict[str, object] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    topics: dict[str, Sequence[str]] = field(default_factory=dict)
    report: Mapping[str, object] = field(default_factory=dict)
    #: Broker → its own load report, in place of `report`.
    reports: dict[str, Mapping[str, object]] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)
    version: str = "4.2.4"
    applied: list[Applied] = field(default_factory=list)
    started_s: dict[str, float] = field(default_factory=dict)
    led: bool = True
    #: Topic → its figures at its owner, counted since the owner has it.
    figures: dict[str, Mapping[str, object]] = field(default_factory=dict)
    dispatch_rate: dict[str, int] = field(default_factory=dict)
    unhealthy: set[str] = field(default_factory=set)
    being_unloaded: set[str] = field(default_factory=set)

    def answer(self, request: Request) -> Answer:
        """The answer of the asked broker."""
        shown = request.headers.get("authorization")
        if self.token is not None and shown != f"Bearer {self.token}":
            return _error(401, "Authentication required")
        if request.method == "GET":
            is_look_up = request.path.startswith("/lookup/v2/topic/")
            answer = self._claim(request) if is_look_up else self._get(request)
            self._look_up()
            return answer
        match request.parts:
            case ["namespaces", tenant, namespace, range_, "unload"]:
                return self._unload(request, f"{tenant}/{namespace}", range_)
            case ["namespaces", tenant, namespace, range_, "split"]:
                return self._split(request, f"{tenant}/{namespace}", range_)
        return _error(404, "no such resource")

    def releases(self, request: Request) -> bool:
        """Whether this call, at this broker, would release a bundle (rather than be sent on)."""
        to_leader = (
            self.manager == "modular"
            and request.query("destinationBroker") is not None
            and request.broker != self.leader()
        )
        return self.owners.get("/".join(request.parts[1:4])) == request.broker and not to_leader

    def leader(self) -> str:
        return self.brokers[0]

    def _get(self, request: Request) -> Answer:
        if request.parts[0] in ("tenants", "namespaces", "persistent"):
            return self._get_namespaces(request)
        if request.parts[0] == "brokers":
            return self._get_brokers(request)
        if request.path == "/metrics/":
            return self._metrics(request.broker)
        match request.parts:
            case ["non-persistent", tenant, namespace, range_]:
                return self._topics_of_bundle(request, f"{tenant}/{namespace}", range_)
            case ["broker-stats", kind]:
                return self._get_of_broker(kind, request.broker)
            case ["clusters", cluster, kind]:
                return self._get_of_cluster(cluster, kind)
        return _error(404, "no such resource")

    def _get_of_broker(self, kind: str, broker: str) -> Answer:
        if kind == "topics":
            return _ok(self._loaded_topics(broker))
        if self.manager == "modular":
            return _ok({**self.reports.get(broker, self.report), **self._start(broker)})
        return _unforeseen("java.lang.UnsupportedOperationException", "null")

    def _loaded_topics(self, broker: str) -> Mapping[str, object]:
        """Those with figures: namespace → range → kind → topic → figures."""
        found: dict[str, dict[str, dict[str, dict[str, object]]]] = {}
        for topic, figures in self.figures.items():
            bundle = self._bundle_of(topic) or ""
            if self.owners.get(bundle) == broker:
                namespace, _, range_ = bundle.rpartition("/")
                kinds = found.setdefault(namespace, {}).setdefault(range_, {"persistent": {}})
                kinds["persistent"][topic] = figures
        return found

    def _get_of_cluster(self, cluster: str, kind: str) -> Answer:
        if kind == "failureDomains":  # an unknown cluster has none either
            return _ok(self.domains if cluster == self.name else {})
        if kind != "namespaceIsolationPolicies":
            return _error(404, "no such resource")
        if cluster != self.name:
            return _error(404, f"Cluster {cluster} does not exist.")
        if self.policies:
            return _ok(self.policies)
        return _error(404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist")

    def _start(self, broker: str) -> Mapping[str, object]:
        started_s = self.started_s.get(broker)
        return {} if started_s is None else {"startTimestamp": int(started_s * 1000)}

    def _metrics(self, broker: str) -> Answer:
        started_s = self.started_s.get(broker)
        lines = ["# TYPE jvm_threads_current gauge", 'jvm_threads_current{cluster="c"} 80.0']
        if started_s is not None:
            lines += ["# TYPE process_start_time_seconds gauge"]
            lines += [f'process_start_time_seconds{{cluster="c"}} {started_s:.3E}']
        return Answer(200, "\n".join([*lines, ""]).encode())

    def _get_brokers(self, request: Request) -> Answer:
        match request.parts[1:]:
            case ["leaderBroker"] if not self.led:
                return _error(404, "Couldn't find leader broker")
            case ["leaderBroker"]:
                return _ok({"brokerId": self.leader(), "serviceUrl": f"http://{self.leader()}"})
            case ["version"]:
                return Answer(200, self.version.encode())
            case ["configuration", "runtime"]:
                named = {"clusterName": self.name, "loadManagerClassName": _MANAGERS[self.manager]}
                return _ok({**named, **self.configuration})
            case [_cluster]:  # any name is as good as the right one
                return _ok(self.brokers)
        return _error(404, "no such resource")

    def _get_namespaces(self, request: Request) -> Answer:
        match request.parts:
            case ["namespaces", tenant, namespace, "bundles"]:
                return self._bundles(f"{tenant}/{namespace}")
            case ["namespaces", tenant, namespace, "antiAffinity"]:
                return Answer(200, self.groups.get(f"{tenant}/{namespace}", "").encode())
            case ["namespaces", tenant, namespace, "topics"] | ["persistent", tenant, namespace]:
                return _ok(list(self.topics.get(f"{tenant}/{namespace}", ())))
            case ["persistent", tenant, namespace, topic, kind]:
                return self._of_topic(request, f"{tenant}/{namespace}", topic, kind)
            case ["tenants"]:
                return _ok(sorted({bundle.split("/")[0] for bundle in self.owners}))
            case ["namespaces", tenant]:
                namespaces = {bundle.rpartition("/")[0] for bundle in self.owners}
                return _ok(sorted(one for one in namespaces if one.startswith(f"{tenant}/")))
        return _error(404, "no such resource")

    def _of_topic(self, request: Request, namespace: str, topic: str, kind: str) -> Answer:
        prefix = f"persistent://{namespace}/{topic}-partition-"
        if kind == "partitions" and (
            partitions := [one for one in self.figures if one.startswith(prefix)]
        ):
            return _ok({"partitions": len(partitions)})
        if kind == "dispatchRate" and self.dispatch_rate:
            return _ok(self.dispatch_rate)
        if kind == "stats":
            return self._figures(request, namespace, topic)
        return _error(404, "no such resource")

    def _topics_of_bundle(self, request: Request, namespace: str, range_: str) -> Answer:
        bundle, unknown = f"{namespace}/{range_}", self._unknown(namespace, range_)
        if unknown is not None:
            return unknown
        if bundle in self.being_unloaded:
            return _being_unloaded(bundle)
        owner = self.owners[bundle]
        if owner is None:
            return Answer(204)
        if owner != request.broker:
            return _redirect(owner, f"{request.path}?authoritative=false")
        return _ok([])

    def _claim(self, request: Request) -> Answer:
        """A look-up that a leader has sent to this broker, which takes the bundle if it is free."""
        domain, tenant, namespace, topic = request.path.split("/")[4:8]
        bundle = self._bundle_of(f"{domain}://{tenant}/{namespace}/{topic}")
        if bundle in self.being_unloaded:
            return _being_unloaded(str(bundle))
        if bundle is None or request.query("authoritative") != "true":
            return _error(404, "no such bundle")
        self.owners[bundle] = self.owners[bundle] or request.broker
        return _ok({"httpUrl": f"http://{self.owners[bundle]}"})

    def _bundle_of(self, topic: str) -> str | None:
        hash_ = topic_hash(topic)
        parsed = ((bundle, parse_bundle(bundle)) for bundle in self.owners)
        namespace = topic.partition("://")[2].rpartition("/")[0]
        return next(
            (bundle for bundle, it in parsed if it and it[0] == namespace and hash_ in it[1]), None
        )

    def _figures(self, request: Request, namespace: str, topic: str) -> Answer:
        name = f"persistent://{namespace}/{topic}"
        owner = self.owners.get(self._bundle_of(name) or "")
        if owner is not None and owner != request.broker:
            return _redirect(owner, request.target)
        return _ok(self.figures[name]) if name in self.figures else _error(404, "Topic not found")

    def _bundles(self, namespace: str) -> Answer:
        names = (bundle.rpartition("/") for bundle in self.owners)
        ranges = sorted(range_ for of, _, range_ in names if of == namespace)
        if not ranges:
            return _error(404, "Namespace does not exist")
        bounds = [ranges[0][:10], *(range_[11:] for range_ in ranges)]
        return _ok({"boundaries": bounds, "numBundles": len(ranges)})

    def _unload(self, request: Request, namespace: str, range_: str) -> Answer:
        bundle, destination = f"{namespace}/{range_}", request.query("destinationBroker")
        if destination is not None:
            destination = destination.removeprefix("http://").removeprefix("https://")
            if destination not in self.brokers:
                why = "Not allowed unload namespace bundle to an inactive destination broker"
                return _error(409, f"{why} {destination}")
        if self.manager == "modular" and destination is not None:
            if request.broker != self.leader():
                return _redirect(self.leader(), request.target)
            self.wanted[bundle] = destination
        unknown = self._unknown(namespace, range_)
        if unknown is not None:
            return unknown
        owner = self.owners[bundle]
        if owner is None:
            return Answer(204)
        if request.broker != owner:
            dropped = self.manager == "modular" or destination is None
            query = "authoritative=true" + ("" if dropped else f"&destinationBroker={destination}")
            return _redirect(owner, f"{request.path}?{query}")
        return self._release(bundle, owner, destination)

    def _release(self, bundle: str, owner: str, destination: str | None) -> Answer:
        if bundle in self.being_unloaded:
            return _being_unloaded(bundle)
        if self.manager == "extensible" and destination == owner:
            why = f"Namespace bundle: {bundle} own by {owner}, cannot be transfer to same broker."
            return _unforeseen("java.lang.IllegalArgumentException", why)
        if bundle.startswith("pulsar/") and self.manager == "modular":
            self.unhealthy.add(owner)
        after = destination if self.manager == "extensible" else None
        self.owners[bundle] = after
        self.applied.append(Applied("unload", bundle, owner, self.wanted.get(bundle, destination)))
        return Answer(204)

    def _split(self, request: Request, namespace: str, range_: str) -> Answer:
        unknown = self._unknown(namespace, range_)
        if unknown is not None:
            return unknown
        algorithm = request.query("splitAlgorithmName")
        if algorithm is not None and algorithm not in {f"{one}_divide" for one in _DIVIDE}:
            return _error(412, "Unsupported namespace bundle split algorithm")
        bundle = f"{namespace}/{range_}"
        owner = self.owners[bundle]
        if owner is None:
            owner = self.owners[bundle] = self.brokers[0]
        if request.broker != owner:
            return _redirect(owner, request.target)
        low, high = (int(bound, 16) for bound in range_.split("_"))
        positions = json.loads(request.body) if request.body else [(low + high) // 2]
        cuts = [low, *sorted(position for position in positions if low < position < high), high]
        if len(cuts) > 3 and self.manager == "extensible":
            return _error(412, "Split bundle failed due to invalid request")
        del self.owners[bundle]
        self.owners.update({f"{namespace}/0x{a:08x}_0x{b:08x}": owner for a, b in pairwise(cuts)})
        self.applied.append(Applied("split", bundle, owner, None))
        return Answer(204)

    def _unknown(self, namespace: str, range_: str) -> Answer | None:
        if not _RANGE.fullmatch(range_):
            return _error(500, "java.lang.NumberFormatException")
        if f"{namespace}/{range_}" in self.owners:
            return None
        if not any(bundle.startswith(f"{namespace}/") for bundle in self.owners):
            return _error(404, "Namespace does not exist")
        return _error(412, "Invalid bundle range")

    def _look_up(self) -> None:
        """What clients do as soon as their bundle is gone: they ask who has it, and it is owned
        again.
        """
        for bundle, owner in self.owners.items():
            if owner is None and self.lookups:
                wanted = self.wanted.get(bundle, "")
                self.owners[bundle] = wanted if wanted in self.brokers else self._elsewhere(bundle)

    def _elsewhere(self, bundle: str) -> str:
        """The broker after the one that released the bundle last."""
        sources = [done.source for done in self.applied if done.bundle == bundle]
        source = sources[-1] if sources else None
        place = self.brokers.index(source) + 1 if source in self.brokers else 0
        return self.brokers[place % len(self.brokers)]


def _ok(tree: object) -> Answer:
    return Answer(200, json.dumps(tree).encode())


def _error(status: int, reason: str) -> Answer:
    return Answer(status, json.dumps({"reason": reason}).encode())


def _unforeseen(exception: str, message: str) -> Answer:
    said = "" if message == "null" else f": {message}"
    trace = f"{exception}{said}\n\tat org.apache.pulsar.broker.Some.method(Some.java:1)"
    head = "\n --- An unexpected error occurred in the server ---\n\nMessage: "
    return _error(500, f"{head}{message}\n\nStacktrace:\n\n{trace}\n")


def _being_unloaded(bundle: str) -> Answer:
    """Of the owner, while another unload is under way: to a second unload, and to a read of the
    bundle's topics.
    """
    why = f"Namespace bundle {bundle} is being unloaded"
    return _unforeseen("java.lang.IllegalStateException", why)


def _redirect(broker: str, target: str) -> Answer:
    return Answer(307, location=f"http://{broker}{quote(target, safe='/?&=:%_-.')}")
