"""The admin API of one Pulsar cluster: the reads of executor and collector, and the executor's
unload, transfer and split.

No call here but `claim` loads a bundle, as topic look-ups do: the owner is found by a read of the
bundle's topics. The list of all bundles that a broker owns is never read: that call can freeze a
modular broker, and so can a list of the persistent topics of one bundle (docs/PULSAR_FAULTS.md).
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from sinks.pulsar_api.admin_errors import Call, Elsewhere, Missing
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings
from sinks.pulsar_api.http import PulsarHttp, Wait
from sinks.wire.names_and_times import is_broker
from strategies.bundles import topic_to_look_up
from strategies.cluster.model import LARGEST_TIME
from strategies.errors import AdminError, BrokerUnavailable, CallFailed, NotFound, NotOwned, Refused

T = TypeVar("T")

#: Number of brokers that are asked for an owner, and number of equal answers that prove that there
#: is none.
_MAX_ASKED = 3
_AGREEING_ANSWERS = 2
#: In seconds, as Prometheus clients of Java write it; with labels or without.
_PROCESS_START = re.compile(
    rb"^process_start_time_seconds(?:\{[^}\n]*\})? ([0-9.E+]+)", re.MULTILINE
)
#: Begin of Pulsar's reason for 404 where a cluster has no isolation policies.
_NO_POLICIES = "NamespaceIsolationPolicies for cluster "
#: Bytes. The metrics and figures of a broker with very many topics are longer, and are not read.
_MOST_METRICS = 64 * 2**20


class PulsarAdmin:
    """All methods raise AdminError: BrokerUnavailable (may be retried), NotOwned, NotFound,
    Refused, Unauthorized. `http`: for calls that have no method here.
    """

    def __init__(
        self,
        settings: PulsarSettings,
        wait: Wait | None = None,
        *,
        keep_open: bool = True,
        deadline_name: str = "pulsar.deadline_ms",
        known: KnownBrokers | None = None,
    ) -> None:
        """Opens no connection yet. Raises SettingsError.

        `wait`: sleeps between retries; returns True to stop retrying. `keep_open=False`: for
        callers that ask many brokers rarely. `deadline_name`: the setting that
        `settings.deadline_ms` comes from.
        `known`: brokers to ask besides `pulsar.admin_urls`; updated from the answers of `brokers`.
        """
        self._settings = settings
        self.http = PulsarHttp(
            settings,
            lambda: frozenset(self.brokers()),
            wait,
            keep_open=keep_open,
            deadline_name=deadline_name,
            known=known,
        )

    def close(self) -> None:
        """Closes all connections."""
        self.http.close()

    def brokers(self) -> tuple[str, ...]:
        """Ids of the live brokers, sorted by name."""
        call = Call("the list of brokers", _path("brokers", self._settings.cluster))
        listed = self._json(call, list)
        found = tuple(sorted(name for name in listed if isinstance(name, str) and is_broker(name)))
        self.http.known.learn(found)
        return found

    def configuration(self, broker: str | None = None) -> dict[str, str]:
        """The runtime configuration of a broker, or of any broker, by Pulsar's keys."""
        path = _path("brokers", "configuration", "runtime")
        call = Call(_of("the configuration", broker), path, at=broker)
        return {
            key: value for key, value in self._json(call, dict).items() if isinstance(value, str)
        }

    def version(self, broker: str | None = None) -> str:
        """The Pulsar version of a broker, or of any broker."""
        call = Call(_of("the version", broker), _path("brokers", "version"), at=broker)
        return self._text(call).strip()[:100]

    def leader(self) -> str | None:
        """Id of the broker that leads the cluster; None while there is none."""
        call = Call("the leader", _path("brokers", "leaderBroker"))
        try:
            found = self._json(call, dict)
        except NotFound:
            return None
        named = found.get("brokerId") or _host_and_port(found.get("serviceUrl"))
        if not isinstance(named, str) or not is_broker(named):
            raise _unexpected_answer(call)
        return named

    def started_ms(self, broker: str) -> int | None:
        """When a broker started, by its own clock (ms since the epoch); None if it does not say.

        A modular broker says it in its load report, which blocks on a frozen broker: look first
        whether it reads metadata. Others say it among their metrics.
        """
        try:
            report = json.loads(self.load_report(broker))
        except BrokerUnavailable:
            raise
        except (AdminError, ValueError, RecursionError):
            report = None
        started = report.get("startTimestamp") if isinstance(report, dict) else None
        if isinstance(started, int) and 0 < started <= LARGEST_TIME:
            return started
        return self._process_start_ms(broker)

    def read_metadata(self, broker: str) -> None:
        """Makes a broker read from both of its metadata stores: milliseconds on a healthy broker,
        without end on a frozen one.

        Asks for a tenant that does not exist, with a new name each time to bypass caches. Racks are
        in the store that holds bundles.
        """
        tenant = f"rebalancer-look-{uuid4().hex[:12]}"
        with suppress(NotFound):
            self.http.ask(Call("a read of metadata", _path("tenants", tenant), at=broker))
        with suppress(NotFound):
            self.http.ask(Call("a read of metadata", _path("bookies", "racks-info"), at=broker))

    def owner(
        self, bundle: str, likely: Iterable[str] = (), brokers: Sequence[str] | None = None
    ) -> str | None:
        """The broker that owns a bundle; None if no broker does or the bundle does not exist. Asks
        the `likely` brokers first.

        Raises NotOwned while ownership changes, BrokerUnavailable if none of the asked brokers
        answers.
        """
        alive = self.brokers() if brokers is None else brokers
        first = [broker for broker in dict.fromkeys(likely) if broker in alive]
        failed: dict[str, AdminError] = {}
        without_owner = 0
        for broker in [*first, *(broker for broker in alive if broker not in first)][:_MAX_ASKED]:
            try:
                owner = self._owner_by(broker, bundle, alive)
                if owner is not None:
                    return (
                        owner
                        if owner == broker or owner in failed
                        else self._confirmed(owner, bundle, alive)
                    )
            except NotFound:
                return None
            except CallFailed as error:
                failed[broker] = error
                continue
            without_owner += 1
            if without_owner == _AGREEING_ANSWERS:
                return None
        if failed and not without_owner:
            raise next(iter(failed.values()))
        return None

    def ranges(self, namespace: str) -> tuple[str, ...]:
        """The ranges of a namespace's bundles, 0x…_0x…, ascending."""
        path = _path("namespaces", *namespace.split("/"), "bundles")
        call = Call(f"the bundles of {namespace}", path)
        bounds = self._json(call, dict).get("boundaries")
        if not isinstance(bounds, list) or not all(isinstance(bound, str) for bound in bounds):
            raise _unexpected_answer(call)
        return tuple(f"{low}_{high}" for low, high in pairwise(bounds))

    def claim(self, bundle: str, broker: str) -> bool:
        """Makes a broker take a bundle that no broker owns, as clients do that a leader sends to
        it; whether it says then that it owns the bundle. Does nothing for a range that is too
        narrow.

        The one call here that makes a broker own a bundle: of a bundle that has just been unloaded
        for this broker (docs/decisions/0243-a-move-is-done-when-it-has-arrived.md). It loads no
        topic and does nothing while another broker owns the bundle.
        """
        topic = topic_to_look_up(bundle)
        if topic is None:
            return False
        path = f"/lookup/v2/topic/{quote(topic)}?authoritative=true"
        call = Call(f"the claim of {bundle}", path, at=broker, follow=False)
        found = self._json(call, dict)
        urls = map(_host_and_port, (found.get("httpUrl"), found.get("httpUrlTls")))
        return any(url is not None and self.http.broker_at(url, [broker]) for url in urls)

    def loaded_topics(self, broker: str, kind: type[T]) -> T:
        """Figures of all topics that a broker has loaded, as a mapping of this kind: namespace →
        range → `persistent` → topic → figures. From its memory, at most a minute old: the call
        reads no metadata, and lists no namespace.
        """
        path = _path("broker-stats", "topics")
        call = Call(f"the topics of {broker}", path, at=broker, most=_MOST_METRICS)
        return self._json(call, kind)

    def topic_figures(self, topic: str, broker: str) -> dict[str, Any]:
        """Figures of a persistent topic since its owner has loaded it, from the broker that owns
        it. Raises NotOwned if that is another one.
        """
        path = _topic_path(topic, "stats")
        return self._json(Call(f"the figures of {topic}", path, at=broker, follow=False), dict)

    def partitions(self, topic: str) -> int:
        """Number of partitions of a topic, by its name without a partition; 0 = not partitioned."""
        call = Call(f"the partitions of {topic}", _topic_path(topic, "partitions"))
        return _whole(self._json(call, dict), "partitions")

    def dispatch_limits(self, topic: str, broker: str) -> tuple[int, int]:
        """The dispatch limits (messages/s, bytes/s; 0 or less = none) in force for each partition
        of a topic: its own, its namespace's or the brokers'. `broker`: the owner of the topic's
        bundle; another one would look it up, and so make a broker own it.
        """
        path = _topic_path(topic, "dispatchRate") + "?applied=true"
        found = self._json(
            Call(f"the dispatch limits of {topic}", path, at=broker, follow=False), dict
        )
        return _whole(found, "dispatchThrottlingRateInMsg"), _whole(
            found, "dispatchThrottlingRateInByte"
        )

    def unload(self, bundle: str, destination: str | None) -> None:
        """Unloads a bundle, to `destination` if given. Not retried here: check the owner before you
        try again.
        """
        query = "" if destination is None else f"?destinationBroker={quote(destination, safe=':')}"
        self.http.ask(
            Call(
                f"the unload of {bundle}",
                _path("namespaces", *bundle.split("/"), "unload") + query,
                "PUT",
                repeatable=False,
                missing=frozenset({412}),
            )
        )

    def split(self, bundle: str, algorithm: str | None, boundaries: Sequence[int] | None) -> None:
        """Splits a bundle with an algorithm or at boundaries. Not retried here."""
        query = "?unload=false" + (
            "" if algorithm is None else f"&splitAlgorithmName={quote(algorithm, safe='')}"
        )
        body = None if boundaries is None else json.dumps(list(boundaries)).encode()
        path = _path("namespaces", *bundle.split("/"), "split") + query
        self.http.ask(Call(f"the split of {bundle}", path, "PUT", body=body, repeatable=False))

    def isolation_policies(self) -> dict[str, Any]:
        """Policies by name, in Pulsar's order; empty only if Pulsar says that none are set. It also
        answers 404 if there is no such cluster.
        """
        try:
            return self._of_cluster("the isolation policies", "namespaceIsolationPolicies")
        except Missing as error:
            if error.reason.startswith(_NO_POLICIES):
                return {}
            raise

    def failure_domains(self) -> dict[str, Any]:
        """Domain → `{"brokers": […]}`."""
        return self._of_cluster("the failure domains", "failureDomains")

    def anti_affinity(self, namespace: str) -> str | None:
        """The anti-affinity group of a namespace; None if it has none (Pulsar answers with an empty
        body).
        """
        path = _path("namespaces", *namespace.split("/"), "antiAffinity")
        return self._text(Call(f"the anti-affinity group of {namespace}", path)) or None

    def tenants(self) -> tuple[str, ...]:
        """Names of all tenants."""
        return self._names(Call("the list of tenants", _path("tenants")))

    def namespaces(self, tenant: str) -> tuple[str, ...]:
        """`tenant/namespace` of all namespaces of a tenant."""
        return self._names(Call(f"the namespaces of {tenant}", _path("namespaces", tenant)))

    def load_report(self, broker: str) -> bytes:
        """The load report of a modular broker, verbatim; extensible brokers refuse this call."""
        path = _path("broker-stats", "load-report")
        return self.http.ask(Call(f"the load report of {broker}", path, at=broker))

    def _process_start_ms(self, broker: str) -> int | None:
        call = Call(f"the metrics of {broker}", "/metrics/", at=broker, most=_MOST_METRICS)
        found = _PROCESS_START.search(self.http.ask(call))
        started = float(found[1]) * 1000 if found else 0.0
        return int(started) if 0 < started <= LARGEST_TIME else None

    def _owner_by(self, broker: str, bundle: str, alive: Sequence[str]) -> str | None:
        """The owner by one broker's answer: 200 is itself, 307 another, 204 none. Neither load
        manager acquires the bundle for it.
        """
        call = Call(
            f"the owner of {bundle}",
            _path("non-persistent", *bundle.split("/")),
            at=broker,
            missing=frozenset({412}),
            follow=False,
        )
        try:
            return broker if self.http.ask(call).strip() else None
        except Elsewhere as named:
            owner = self.http.broker_at(named.netloc, alive)
            if owner not in (None, broker):
                return owner
            raise NotOwned(
                f"{named}, which does not own it (any more): ownership is changing; the next "
                "round decides again."
            ) from named

    def _confirmed(self, named: str, bundle: str, alive: Sequence[str]) -> str | None:
        """Asks the named owner itself, because other brokers learn of a release later. Without its
        answer it counts as the owner.
        """
        try:
            owner = self._owner_by(named, bundle, alive)
        except BrokerUnavailable:
            return named
        if owner in (None, named):
            return owner
        raise NotOwned(
            f"{named}, named as the owner of {bundle}, names {owner}: ownership is changing; "
            "the next round decides again."
        )

    def _names(self, call: Call) -> tuple[str, ...]:
        return tuple(name for name in self._json(call, list) if isinstance(name, str))

    def _of_cluster(self, what: str, part: str) -> dict[str, Any]:
        path = _path("clusters", self._settings.cluster, part)
        return self._json(Call(what, path), dict)

    def _json(self, call: Call, kind: type[T]) -> T:
        body = self.http.ask(call)
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError) as error:
            raise _unexpected_answer(call) from error

    def _text(self, call: Call) -> str:
        return self.http.ask(call).decode("utf-8", errors="replace")


def _of(what: str, broker: str | None) -> str:
    return what if broker is None else f"{what} of {broker}"


def _path(*parts: str) -> str:
    return "/".join(["/admin/v2", *(quote(part, safe=":") for part in parts)])


def _topic_path(topic: str, part: str) -> str:
    domain, _, name = topic.partition("://")
    return _path(domain, *name.split("/"), part)


def _whole(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    return value if isinstance(value, int) else 0


def _host_and_port(url: object) -> str | None:
    """host:port of a URL; older brokers name the leader by its URL only."""
    return url.rpartition("://")[2].rstrip("/") if isinstance(url, str) else None


def _unexpected_answer(call: Call) -> Refused:
    return Refused(
        f"The answer to {call.what} is not one of Pulsar's admin API; check that "
        "pulsar.admin_urls is the web service of a broker."
    )
