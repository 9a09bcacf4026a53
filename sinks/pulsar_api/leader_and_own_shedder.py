"""Who leads a cluster, and whether Pulsar's own shedder is on there."""

from collections.abc import Callable
from dataclasses import dataclass

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError

#: Pause after a failed look. The sweep waits for the answer, and works without it.
_PAUSE_MS = 60_000


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
