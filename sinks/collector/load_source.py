"""Which load manager a cluster runs, and what that means for whoever collects: where load is told, and by whom it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from sinks.collector.broker_poll import BrokerPoll, Poll
from sinks.collector.bundle_owners import OwnerPoll
from sinks.collector.extensible_poll import ExtensiblePoll, lives
from sinks.collector.load_topics import LoadTopics
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import FrozenReports
from sinks.pulsar_api.settings import PulsarSettings, admin_urls
from strategies.errors import AdminError, BrokerUnavailable, Refused

LoadManager = Literal["modular", "extensible"]
_PORT = re.compile(r"\d+")
_SERVERS = 2


def load_manager_of(admin: PulsarAdmin, settings: PulsarSettings) -> LoadManager:
    """The configured one, or what a broker says. Raises AdminError."""
    if settings.load_manager != "auto":
        return settings.load_manager
    name = admin.configuration().get("loadManagerClassName", "").rpartition(".")[2]
    if name.startswith("Extensible"):
        return "extensible"
    if name.startswith("Modular"):
        return "modular"
    raise Refused(
        f"{settings.cluster} runs the load manager {name or 'without a name'}, which nobody can collect from; see pulsar.load_manager"
    )


def service_url_of(admin: PulsarAdmin, settings: PulsarSettings) -> str:
    """Where clients connect: as configured, or the addresses of two brokers, so that one of them may be away.

    Asks the brokers that `pulsar.admin_urls` names, and for the list of brokers only where these do not suffice.

    Raises AdminError, SettingsError.
    """
    if settings.service_url:
        return settings.service_url
    urls = admin_urls(settings)
    scheme, key = ("pulsar+ssl", "brokerServicePortTls") if urls[0].scheme == "https" else ("pulsar", "brokerServicePort")
    found: dict[str, None] = {}
    failed: AdminError | None = None
    for web in _webs(admin, [url.netloc for url in urls]):
        try:
            found[f"{web.rpartition(':')[0]}:{_port(admin, web, key)}"] = None
        except BrokerUnavailable as error:
            failed = failed or error
        if len(found) == _SERVERS:
            break
    if failed is not None and not found:
        raise failed
    return f"{scheme}://{','.join(found)}"


def _webs(admin: PulsarAdmin, named: Sequence[str]) -> Iterator[str]:
    """Web services of brokers: those that are named, then the others of the cluster's list, which is asked for only here."""
    yield from named
    yield from (broker for broker in admin.brokers() if broker not in named)


def _port(admin: PulsarAdmin, web: str, key: str) -> str:
    port = _PORT.search(admin.configuration(web).get(key, ""))
    if port is None:
        raise Refused(f"{web} has no {key}; name the binary protocol's address as pulsar.service_url")
    return port[0]


def open_poll(
    manager: LoadManager,
    settings: PulsarSettings,
    collector: CollectorSettings,
    admins: tuple[PulsarAdmin, PulsarAdmin],
    clock_ms: Callable[[], int],
) -> Poll:
    """What gets the load of the brokers. Raises AdminError, SettingsError, SinkError.

    `admins`: one for the cluster, one for single brokers, which must not repeat calls (see `hasty`).
    """
    admin, quick = admins
    if manager == "modular":
        return BrokerPoll(FrozenReports(quick).load_report, collector.max_concurrent, collector.most_passes_off, clock_ms)
    arrivals = LoadTopics(service_url_of(admin, settings), settings, clock_ms)
    living = BrokerPoll(lives(quick), collector.max_concurrent, collector.most_passes_off, clock_ms)
    owners = OwnerPoll(quick, collector.max_concurrent, collector.broker_deadline_ms / 1000, clock_ms)
    return ExtensiblePoll(arrivals, living, owners, collector.keep_ms, clock_ms)


#: Where the deadline of `hasty` comes from, for sentences.
HASTY_DEADLINE = "collector.broker_deadline_ms"


def hasty(settings: PulsarSettings, collector: CollectorSettings) -> PulsarSettings:
    """For questions to single brokers, which have less time and no second try."""
    return replace(settings, attempts=1, deadline_ms=collector.broker_deadline_ms)
