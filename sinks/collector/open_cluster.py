"""Finds out what a cluster is from the address of a broker, and opens what reads its load: load
reports over HTTP, or the load topics.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from sinks.collector.broker_poll import BrokerPoll, Pass, Poll
from sinks.collector.collector import Source
from sinks.collector.extensible_poll import WITHDRAWN, ExtensiblePoll, LoadTopics, OwnerPoll
from sinks.collector.settings import CollectorSettings
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import (
    LeaderPoll,
    LoadManager,
    check_cluster_name,
    configured_manager,
    service_url_of,
)
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings
from sinks.pulsar_api.frozen_brokers import FrozenReports
from strategies.errors import Refused

#: Stands for the cluster's name in a call that does not need it.
_UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class DiscoveredCluster:
    """A cluster that answers; `pulsar`: its settings, with its name."""

    pulsar: PulsarSettings
    load_manager: LoadManager
    brokers: tuple[str, ...]


def discovered(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> DiscoveredCluster:
    """Asks the brokers in `pulsar.admin_urls`; a name in `pulsar.cluster` must be theirs. Raises
    SettingsError, AdminError.

    `wait`: sleeps; returns True if the program is to end.
    """
    named = pulsar if pulsar.cluster else replace(pulsar, cluster=_own_name(pulsar, wait))
    with closing(PulsarAdmin(named, wait)) as admin:
        check_cluster_name(named, named.admin_urls, admin.configuration())
        return DiscoveredCluster(named, load_manager_of(admin, named), admin.brokers())


def _own_name(pulsar: PulsarSettings, wait: Callable[[float], bool]) -> str:
    """`clusterName` of a broker: the list of clusters also has those that it replicates to."""
    with closing(PulsarAdmin(replace(pulsar, cluster=_UNNAMED), wait)) as admin:
        name = admin.configuration().get("clusterName", "")
    if not name:
        raise Refused(
            "The broker's configuration names no cluster; set pulsar.cluster to the name that "
            "`pulsar-admin clusters list` prints."
        )
    return name


@contextmanager
def opened(
    pulsar: PulsarSettings,
    collector: CollectorSettings,
    wait: Callable[[float], bool],
    known: KnownBrokers | None = None,
) -> Iterator[Source]:
    """Reads the cluster's brokers and load manager, and opens the poll. Raises SettingsError,
    AdminError, SinkError.

    `wait`: sleeps; returns True if the program is to end. `known`: brokers to ask besides
    `pulsar.admin_urls`.
    """
    known = known or KnownBrokers(pulsar)
    hurried = hasty_admin(pulsar, collector, wait, known)
    with closing(PulsarAdmin(pulsar, wait, known=known)) as admin, closing(hurried) as quick:
        check_cluster_name(pulsar, pulsar.admin_urls, admin.configuration())
        brokers, manager = admin.brokers(), load_manager_of(admin, pulsar)
        admins = (admin, quick)
        with opened_poll(manager, pulsar, collector, admins, wall_clock_ms) as poll:
            leader = LeaderPoll(quick, wall_clock_ms)
            yield Source(pulsar.cluster, brokers, manager, collector, admin, poll, leader)


def run_until_complete(source: Source, limit_s: float, wait: Callable[[float], bool]) -> Pass:
    """Runs one pass; for brokers that publish on their own schedule, passes until all have
    published or `limit_s` is over.
    """
    until = time.monotonic() + limit_s
    while True:
        done = source.poll(source.admin.brokers())
        if source.manager == "modular" or not done.missing or time.monotonic() > until or wait(0.5):
            return done


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
    `hasty_admin`).
    """
    admin, quick = admins
    at_once, off = collector.max_concurrent, collector.most_passes_off
    if manager == "modular":
        yield BrokerPoll(FrozenReports(quick).load_report, at_once, off, clock_ms).run
        return

    def ask(broker: str) -> bytes:
        quick.read_metadata(broker)
        return WITHDRAWN

    alive = BrokerPoll(ask, at_once, off, clock_ms)
    owners = OwnerPoll(quick, at_once, collector.broker_deadline_ms / 1000, clock_ms)
    with closing(LoadTopics(service_url_of(admin, settings), settings, clock_ms)) as topics:
        yield ExtensiblePoll(topics.take, alive, owners.run, collector.keep_ms, clock_ms).run


def hasty_admin(
    settings: PulsarSettings,
    collector: CollectorSettings,
    wait: Callable[[float], bool] | None = None,
    known: KnownBrokers | None = None,
) -> PulsarAdmin:
    """The admin client for calls to single brokers: a shorter deadline, no retries, and connections
    for one call each. `wait`, `known`: see PulsarAdmin.
    """
    return PulsarAdmin(
        replace(settings, attempts=1, deadline_ms=collector.broker_deadline_ms),
        wait,
        keep_open=False,
        deadline_name="collector.broker_deadline_ms",
        known=known,
    )
