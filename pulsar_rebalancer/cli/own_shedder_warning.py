"""Says that Pulsar's own shedder is on: when a program starts, and as long as it lasts."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from pulsar_rebalancer.cli.service_log import Level, Line
from sinks.collector.open_cluster import hasty_admin
from sinks.collector.settings import CollectorSettings
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.broker_facts import LeaderFacts, LeaderPoll
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings

#: Switches a dynamic setting of the brokers off.
SWITCH_OFF = "pulsar-admin brokers update-dynamic-config --config {} --value false"
#: Seconds between two looks, and between two lines while it stays on.
_LOOK_S, _AGAIN_S = 60.0, 600.0


@dataclass
class OwnShedder:
    """The shedder of one cluster. `look`: asks the leader; `consequence`: of a shedder that is on,
    for the sentence; `clock`: seconds.
    """

    look: Callable[[], LeaderFacts]
    consequence: str
    cluster: str = ""
    clock: Callable[[], float] = time.monotonic
    _due: float = 0.0
    _said: float | None = None

    def news(self) -> Iterator[Line]:
        """The line that is due now, if any. What the leader does not say changes nothing."""
        now = self.clock()
        if now < self._due:
            return
        self._due = now + _LOOK_S
        facts = self.look()
        if facts.shedding and (self._said is None or now >= self._said + _AGAIN_S):
            self._said = now
            text = (
                f"Pulsar's own shedder is on at the leader {facts.leader}: {self.consequence}; "
                f"switch it off: {SWITCH_OFF.format('loadBalancerSheddingEnabled')}"
            )
            yield self._line(text, facts, "warning")
        elif facts.shedding is False and self._said is not None:
            self._said = None
            yield self._line("Pulsar's own shedder is off now", facts, "info")

    def _line(self, text: str, facts: LeaderFacts, level: Level) -> Line:
        fields = {"leader": facts.leader, "shedding": facts.shedding}
        return Line(text, "own-shedder", level, fields, self.cluster)


@contextmanager
def own_shedders(
    clusters: Sequence[PulsarSettings], collector: CollectorSettings, consequence: str
) -> Iterator[list[OwnShedder]]:
    """The shedders of these clusters, each asked by a client of its own."""
    with ExitStack() as stack:
        found = []
        for pulsar in clusters:
            admin = stack.enter_context(closing(hasty_admin(pulsar, collector)))
            look = LeaderPoll(admin, wall_clock_ms).run
            found.append(OwnShedder(look, consequence, pulsar.cluster))
        yield found
