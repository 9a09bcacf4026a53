"""Facts about brokers: configured and running load manager, name of their cluster, their clocks,
and the addresses of their binary protocol; who leads the cluster, and whether Pulsar's own shedder
is on there.
"""

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import (
    PulsarSettings,
    admin_urls,
    base_of,
    tls_context,
)
from sinks.pulsar_api.http_exchange import HttpConnections, NotConnected, TooLarge
from strategies.errors import AdminError, BrokerUnavailable, Refused, SettingsError, Unauthorized

LoadManager = Literal["modular", "extensible"]
#: Begin of the name of a load manager's class.
_MANAGERS: Mapping[str, LoadManager] = {"Extensible": "extensible", "Modular": "modular"}
#: What `loadReportType` in a broker's load report says about the load manager that made it.
_REPORTS = {"LocalBrokerData": "ModularLoadManagerImpl", "LoadReport": "SimpleLoadManagerImpl"}
#: Pause after a failed look. The sweep waits for the answer, and works without it.
_PAUSE_MS = 60_000


def configured_manager(
    admin: PulsarAdmin, broker: str | None = None
) -> tuple[LoadManager | None, str]:
    """The load manager, and the name of its class without packages; None for one that is not
    supported. `broker`: which one is asked, None = any. Raises AdminError.
    """
    name = admin.configuration(broker).get("loadManagerClassName", "").rpartition(".")[2]
    kinds = (kind for begin, kind in _MANAGERS.items() if name.startswith(begin))
    return next(kinds, None), name


def running_manager(admin: PulsarAdmin, broker: str) -> str:
    """The load manager, known from the type of its load report: the extensible one has none. Empty
    if unknown. Raises Unauthorized.
    """
    try:
        report = json.loads(admin.load_report(broker))
    except Unauthorized:
        raise
    except AdminError as error:
        return "ExtensibleLoadManagerImpl" if "UnsupportedOperationException" in str(error) else ""
    except (ValueError, RecursionError):
        return ""
    return _REPORTS.get(str(report.get("loadReportType")), "") if isinstance(report, dict) else ""


def check_cluster_name(
    settings: PulsarSettings, who: str, configuration: Mapping[str, str]
) -> None:
    """Raises SettingsError if a broker with this runtime configuration belongs to another cluster
    than `pulsar.cluster`. `who`: the broker, for the message.

    Pulsar answers most calls for a cluster that does not exist, so that a misspelt name would seem
    to be a cluster without failure domains and policies. A broker that names no cluster passes.
    """
    name = configuration.get("clusterName") or settings.cluster
    if name != settings.cluster:
        raise SettingsError(
            [
                f"pulsar.cluster: is {settings.cluster}, but {who} belongs to {name} (clusterName "
                f"in broker.conf); set pulsar.cluster, or the name of the table in [clusters], to "
                f"{name}, or correct pulsar.admin_urls"
            ]
        )


def broker_time_s(broker: str, settings: PulsarSettings) -> int | None:
    """The broker's time in seconds since the epoch; None without a Date header. Raises
    SettingsError.
    """
    import httpx

    url = base_of(broker, admin_urls(settings), settings)
    until = time.monotonic() + settings.deadline_ms / 1000
    connect_s = settings.connect_timeout_ms / 1000
    try:
        with closing(HttpConnections(tls_context(settings), 0, connect_s)) as connections:
            asked = connections.exchange(
                "GET", f"{url}/status.html", headers={}, body=None, until=until, most=2**20
            )
        date = asked.headers.get("date")
        return None if date is None else int(parsedate_to_datetime(date).timestamp())
    except (
        NotConnected,
        TimeoutError,
        TooLarge,
        httpx.TransportError,
        httpx.InvalidURL,
        ssl.SSLError,
        ValueError,
    ):
        return None


_SERVERS = 2


def service_url_of(admin: PulsarAdmin, settings: PulsarSettings) -> str:
    """The URL for clients: the configured one, or the addresses of two brokers, so that one of them
    may be down.

    Asks the brokers in `pulsar.admin_urls`, and reads the cluster's list of brokers only if these
    are not enough.

    Raises AdminError, SettingsError.
    """
    if settings.service_url:
        return settings.service_url
    urls = admin_urls(settings)
    scheme, key = (
        ("pulsar+ssl", "brokerServicePortTls")
        if urls[0].scheme == "https"
        else ("pulsar", "brokerServicePort")
    )
    found: dict[str, None] = {}
    failed: AdminError | None = None
    for web in _web_services(admin, [url.netloc for url in urls]):
        try:
            found[f"{web.rpartition(':')[0]}:{_port(admin, web, key)}"] = None
        except BrokerUnavailable as error:
            failed = failed or error
        if len(found) == _SERVERS:
            break
    if failed is not None and not found:
        raise failed
    return f"{scheme}://{','.join(found)}"


def _web_services(admin: PulsarAdmin, named: Sequence[str]) -> Iterator[str]:
    """Web services of brokers: the configured ones, then the others of the cluster's list, which is
    read only when needed.
    """
    yield from named
    yield from (broker for broker in admin.brokers() if broker not in named)


def _port(admin: PulsarAdmin, web: str, key: str) -> str:
    port = re.search(r"\d+", admin.configuration(web).get(key, ""))
    if port is None:
        raise Refused(
            f"{web} has no {key}; name the binary protocol's address as pulsar.service_url"
        )
    return port[0]


@dataclass(frozen=True, slots=True)
class LeaderFacts:
    """Id of the leading broker, and whether it sheds load by itself; None = unknown."""

    leader: str | None = None
    shedding: bool | None = None


@dataclass
class LeaderPoll:
    """Asks for the leader once per pass. `admin` must not retry by itself; `clock_ms`: ms."""

    admin: PulsarAdmin
    clock_ms: Callable[[], int]
    _failed_ms: int | None = None

    def run(self) -> LeaderFacts:
        """The facts as far as brokers answer; a permission that is missing is no error here."""
        if self._failed_ms is not None and self.clock_ms() < self._failed_ms + _PAUSE_MS:
            return LeaderFacts()
        self._failed_ms, leader = None, None
        try:
            leader = self.admin.leader()
            return (
                LeaderFacts()
                if leader is None
                else LeaderFacts(leader, _sheds(self.admin.configuration(leader)))
            )
        except AdminError:
            self._failed_ms = self.clock_ms()
            return LeaderFacts(leader)


def _sheds(configuration: dict[str, str]) -> bool | None:
    """True if a broker with this runtime configuration sheds load while it leads."""
    sheds = configuration.get("loadBalancerSheddingEnabled")
    if sheds is None:
        return None
    return sheds == "true" and configuration.get("loadBalancerEnabled") != "false"
