"""Finds a cluster's load manager, and opens the matching source of load: load reports over HTTP, or
the load topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from sinks.collector.broker_poll import BrokerPoll, Poll
from sinks.collector.bundle_owners import OwnerPoll
from sinks.collector.extensible_poll import ExtensiblePoll, liveness_call
from sinks.collector.load_topics import LoadTopics
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import FrozenReports
from sinks.pulsar_api.modular_or_extensible import LoadManager, configured_manager
from sinks.pulsar_api.settings import PulsarSettings, admin_urls
from strategies.errors import AdminError, BrokerUnavailable, Refused

_PORT = re.compile(r"\d+")
_SERVERS = 2


def load_manager_of(admin: PulsarAdmin, settings: PulsarSettings) -> LoadManager:
    """The configured load manager, or the one in a broker's configuration. Raises AdminError."""
    if settings.load_manager != "auto":
        return settings.load_manager
    manager, name = configured_manager(admin)
    if manager is not None:
        return manager
    raise Refused(
        f"{settings.cluster} runs the load manager {name or 'without a name'}, which is not "
        "supported; see pulsar.load_manager"
    )


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
    port = _PORT.search(admin.configuration(web).get(key, ""))
    if port is None:
        raise Refused(
            f"{web} has no {key}; name the binary protocol's address as pulsar.service_url"
        )
    return port[0]


@contextmanager
def opened_poll(
    manager: LoadManager,
    settings: PulsarSettings,
    collector: CollectorSettings,
    admins: tuple[PulsarAdmin, PulsarAdmin],
    clock_ms: Callable[[], int],
) -> Iterator[Poll]:
    """The poll for a load manager. Raises AdminError, SettingsError, SinkError.

    `admins`: one client for the cluster, one for single brokers, which must not retry (see
    `single_try`).
    """
    admin, quick = admins
    at_once, off = collector.max_concurrent, collector.most_passes_off
    if manager == "modular":
        yield BrokerPoll(FrozenReports(quick).load_report, at_once, off, clock_ms).run
        return
    with closing(LoadTopics(service_url_of(admin, settings), settings, clock_ms)) as topics:
        alive = BrokerPoll(liveness_call(quick), at_once, off, clock_ms)
        owners = OwnerPoll(quick, at_once, collector.broker_deadline_ms / 1000, clock_ms)
        yield ExtensiblePoll(topics.take, alive, owners.run, collector.keep_ms, clock_ms).run


#: The setting behind the deadline of `single_try`, for messages.
HASTY_DEADLINE = "collector.broker_deadline_ms"


def single_try(settings: PulsarSettings, collector: CollectorSettings) -> PulsarSettings:
    """Settings of the admin client for calls to single brokers: a shorter deadline and no
    retries.
    """
    return replace(settings, attempts=1, deadline_ms=collector.broker_deadline_ms)
