"""The open resources of one cluster that is collected from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from sinks.collector.broker_poll import Pass
from sinks.collector.collector import Source
from sinks.collector.leader import LeaderPoll
from sinks.collector.load_source import (
    HASTY_DEADLINE,
    load_manager_of,
    opened_poll,
    single_try,
)
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.cluster_name import check_cluster_name
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.pulsar_api.settings import PulsarSettings
from sinks.wall_clock import wall_clock_ms

_PAUSE_S = 0.5


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
    hurried = PulsarAdmin(
        single_try(pulsar, collector),
        wait,
        keep_open=False,
        deadline_name=HASTY_DEADLINE,
        known=known,
    )
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
        if (
            source.manager == "modular"
            or not done.missing
            or time.monotonic() > until
            or wait(_PAUSE_S)
        ):
            return done
