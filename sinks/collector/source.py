"""Everything that is open while one cluster is collected from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from sinks.collector.broker_poll import Pass, Poll
from sinks.collector.collector import Collector, wall_clock_ms
from sinks.collector.load_source import HASTY_DEADLINE, LoadManager, hasty, load_manager_of, open_poll
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.pulsar_api.settings import PulsarSettings
from sinks.topics.access import Publisher

_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """One cluster: who was there when it was opened, which load manager runs, and what asks for the load."""

    cluster: str
    brokers: tuple[str, ...]
    manager: LoadManager
    settings: CollectorSettings
    admin: PulsarAdmin
    poll: Poll

    def collector(self, telemetry: Publisher) -> Collector:
        """What publishes it."""
        return Collector(self.cluster, self.settings, manager=self.manager, admin=self.admin, poll=self.poll, telemetry=telemetry)


@contextmanager
def opened(
    pulsar: PulsarSettings, collector: CollectorSettings, wait: Callable[[float], bool], known: KnownBrokers | None = None
) -> Iterator[Source]:
    """Asks the cluster who is there. Raises SettingsError, AdminError, SinkError.

    `wait` sleeps; True from it means that the program is to end. `known`: whom to ask besides `pulsar.admin_urls`.
    """
    known = known or KnownBrokers(pulsar)
    hurried = PulsarAdmin(hasty(pulsar, collector), wait, keep_open=False, deadline_name=HASTY_DEADLINE, known=known)
    with closing(PulsarAdmin(pulsar, wait, known=known)) as admin, closing(hurried) as quick:
        brokers, manager = admin.brokers(), load_manager_of(admin, pulsar)
        with closing(open_poll(manager, pulsar, collector, (admin, quick), wall_clock_ms)) as poll:
            yield Source(pulsar.cluster, brokers, manager, collector, admin, poll)


def look(source: Source, patience_s: float, wait: Callable[[float], bool]) -> Pass:
    """One pass; where brokers publish on their own rhythm, as many as it takes until all have, or patience ends."""
    until = time.monotonic() + patience_s
    while True:
        done = source.poll.run(source.admin.brokers())
        if source.manager == "modular" or not done.missing or time.monotonic() > until or wait(_PAUSE_S):
            return done
