"""One pass over brokers with the extensible load manager: what they published since the last one, and again what still holds.

These brokers publish when their load changes, at the latest after 15 minutes, and read each other's newest word as long as it is not
withdrawn or older than `loadBalancerBrokerLoadDataTTLInSeconds`. So does a pass: it ends with every broker's newest figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sinks.collector.broker_poll import BrokerPoll, Kind, Pass, Report
from sinks.collector.load_topics import WITHDRAWN
from sinks.pulsar_api.admin import PulsarAdmin

FIGURES: Kind = "broker-load-data"


class Arrivals(Protocol):
    """Where reports come from: `load_topics.LoadTopics`."""

    def take(self) -> list[Report]:
        """What arrived since the last call, in order of arrival. Raises SinkError."""
        ...

    def close(self) -> None:
        """Stops following."""
        ...


class Owners(Protocol):
    """Who owns the bundles of the cluster: `bundle_owners.OwnerPoll`."""

    def run(self, brokers: Sequence[str]) -> tuple[Report, ...]:
        """What each of these brokers owns, where it changed. Raises Unauthorized."""
        ...


def lives(admin: PulsarAdmin) -> Callable[[str], bytes]:
    """Finds out whether a broker answers; the answer says nothing."""

    def ask(broker: str) -> bytes:
        admin.read_metadata(broker)
        return WITHDRAWN

    return ask


@dataclass
class ExtensiblePoll:
    """`living` asks brokers whether they live (`lives`); `keep_ms`: how long a broker's word holds."""

    arrivals: Arrivals
    living: BrokerPoll
    owners: Owners
    keep_ms: int
    clock_ms: Callable[[], int]
    _newest: dict[tuple[Kind, str], Report] = field(default_factory=dict)
    _said_ms: dict[tuple[Kind, str], int] = field(default_factory=dict)

    def run(self, brokers: Sequence[str]) -> Pass:
        """One pass over these brokers; what others said is passed on too, it may be their last word. Raises SinkError."""
        arrived = [self._note(report) for report in self.arrivals.take()]
        self._forget(brokers)
        polled = self.living.run(brokers)
        owned = self.owners.run(polled.answered)
        arrived += [self._note(report) for report in self.arrivals.take()]
        self._forget(brokers)
        again = self._again({(report.kind, report.broker) for report in arrived})
        missing = dict(polled.missing) | {
            broker: why for broker in brokers if broker not in polled.missing and (why := self._lacking(broker))
        }
        answered = tuple(broker for broker in brokers if broker not in missing)
        return Pass(polled.number, self.clock_ms(), (*arrived, *again), answered, missing, owned)

    def close(self) -> None:
        """Stops following."""
        self.arrivals.close()

    def _note(self, report: Report) -> Report:
        """Keeps it. A broker's next word is later than its last, also within one millisecond."""
        key = report.kind, report.broker
        last = self._newest.get(key)
        self._newest[key] = report if last is None or report.ts > last.ts else replace(report, ts=last.ts + 1)
        self._said_ms[key] = report.ts
        return self._newest[key]

    def _forget(self, brokers: Sequence[str]) -> None:
        """Those that are gone, and what does not hold any more."""
        now, alive = self.clock_ms(), set(brokers)
        self._newest = {
            (kind, broker): report
            for (kind, broker), report in self._newest.items()
            if broker in alive and now - self._said_ms[kind, broker] <= self.keep_ms
        }
        self._said_ms = {key: ts for key, ts in self._said_ms.items() if key[1] in alive}

    def _again(self, fresh: set[tuple[Kind, str]]) -> list[Report]:
        """What was said before and still holds. Rounds see by its content that it is no new sample."""
        now = self.clock_ms()
        held = [key for key, report in sorted(self._newest.items()) if key not in fresh and report.body != WITHDRAWN]
        for key in held:
            self._newest[key] = replace(self._newest[key], ts=max(now, self._newest[key].ts + 1))
        return [self._newest[key] for key in held]

    def _lacking(self, broker: str) -> str:
        """Why a broker that lives has no figures; empty if it has."""
        newest, said = self._newest.get((FIGURES, broker)), self._said_ms.get((FIGURES, broker))
        if newest is not None and newest.body != WITHDRAWN:
            return ""
        if said is None:
            return f"{broker} has not published its load since the collector began; it does so when its load changes, or after 15 minutes"
        age_s = (self.clock_ms() - said) / 1000
        if newest is not None:
            return f"{broker} withdrew its figures {age_s:.0f} s ago, as brokers do when a bundle moves; new ones follow"
        return f"{broker} published its load {age_s:.0f} s ago for the last time, which is too long ago to count; look after it"
