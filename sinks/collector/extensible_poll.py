"""One pass over brokers with the extensible load manager: reports published since the last pass,
and older ones that are still valid.

These brokers publish when their load changes, at the latest after 15 minutes. They use each other's
newest report until it is withdrawn or older than `loadBalancerBrokerLoadDataTTLInSeconds`. A pass
does the same: it ends with the newest figures of every broker that answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sinks.collector.broker_poll import BrokerPoll, Kind, MissingReport, Pass, Report
from sinks.collector.load_topics import WITHDRAWN
from sinks.pulsar_api.admin import PulsarAdmin

FIGURES: Kind = "broker-load-data"


class Arrivals(Protocol):
    """Source of reports: `load_topics.LoadTopics`."""

    def take(self) -> list[Report]:
        """The reports since the last call, in order of arrival. Raises SinkError."""

    def close(self) -> None:
        """Closes the readers."""


class Owners(Protocol):
    """Source of bundle ownership: `bundle_owners.OwnerPoll`."""

    def run(self, brokers: Sequence[str]) -> tuple[Report, ...]:
        """The bundles of each of these brokers, where they changed. Raises Unauthorized."""


def liveness_call(admin: PulsarAdmin) -> Callable[[str], bytes]:
    """A call that checks whether a broker answers; the content of its answer is not used."""

    def ask(broker: str) -> bytes:
        admin.read_metadata(broker)
        return WITHDRAWN

    return ask


@dataclass
class ExtensiblePoll:
    """`liveness`: checks whether a broker answers (`liveness_call`); `keep_ms`: how long a broker's
    report stays valid.
    """

    arrivals: Arrivals
    liveness: BrokerPoll
    owners: Owners
    keep_ms: int
    clock_ms: Callable[[], int]
    _newest: dict[tuple[Kind, str], Report] = field(default_factory=dict)
    _published_ms: dict[tuple[Kind, str], int] = field(default_factory=dict)

    def run(self, brokers: Sequence[str]) -> Pass:
        """Runs one pass; also passes on reports of brokers not listed any more: they may be their
        last. Raises SinkError.
        """
        arrived = [self._note(report) for report in self.arrivals.take()]
        self._forget(brokers)
        polled = self.liveness.run(brokers)
        owned = self.owners.run(polled.answered)
        arrived += [self._note(report) for report in self.arrivals.take()]
        self._forget(brokers)
        fresh = {(report.kind, report.broker) for report in arrived}
        repeated = self._still_valid(fresh, polled.missing)
        found = {
            broker: why
            for broker in brokers
            if broker not in polled.missing and (why := self._missing_reason(broker))
        }
        missing = {**polled.missing, **{broker: why.text for broker, why in found.items()}}
        codes = {**polled.missing_codes, **{broker: why.code for broker, why in found.items()}}
        answered = tuple(broker for broker in brokers if broker not in missing)
        reports = (*arrived, *repeated)
        return Pass(
            polled.number,
            self.clock_ms(),
            reports,
            answered,
            missing,
            owned,
            codes,
            answering=tuple(found),
        )

    def close(self) -> None:
        """Closes the readers."""
        self.arrivals.close()

    def _note(self, report: Report) -> Report:
        """Keeps the report. The next report of a broker gets a later timestamp, even within the
        same millisecond.
        """
        key = report.kind, report.broker
        last = self._newest.get(key)
        self._newest[key] = (
            report if last is None or report.ts > last.ts else replace(report, ts=last.ts + 1)
        )
        self._published_ms[key] = report.ts
        return self._newest[key]

    def _forget(self, brokers: Sequence[str]) -> None:
        """Drops brokers that left, and reports that are no longer valid."""
        now, alive = self.clock_ms(), set(brokers)
        self._newest = {
            (kind, broker): report
            for (kind, broker), report in self._newest.items()
            if broker in alive and now - self._published_ms[kind, broker] <= self.keep_ms
        }
        self._published_ms = {key: ts for key, ts in self._published_ms.items() if key[1] in alive}

    def _still_valid(
        self, fresh: Collection[tuple[Kind, str]], silent: Collection[str]
    ) -> list[Report]:
        """Earlier reports that are still valid. Their equal content marks them as repeated samples
        in rounds. `silent`: brokers that do not answer; their figures have to age.
        """
        now = self.clock_ms()
        held = [
            key
            for key, report in sorted(self._newest.items())
            if key not in fresh and key[1] not in silent and report.body != WITHDRAWN
        ]
        for key in held:
            self._newest[key] = replace(self._newest[key], ts=max(now, self._newest[key].ts + 1))
        return [self._newest[key] for key in held]

    def _missing_reason(self, broker: str) -> MissingReport | None:
        """Why a live broker has no figures; None if it has."""
        newest, published_ms = (
            self._newest.get((FIGURES, broker)),
            self._published_ms.get((FIGURES, broker)),
        )
        if newest is not None and newest.body != WITHDRAWN:
            return None
        if published_ms is None:
            return MissingReport(
                "not-published",
                f"{broker} has not published its load since the collector started; it does so "
                "when its load changes, or after 15 minutes",
            )
        age_s = (self.clock_ms() - published_ms) / 1000
        if newest is not None:
            return MissingReport(
                "withdrawn",
                f"{broker} withdrew its figures {age_s:.0f} s ago, as brokers do when a bundle "
                "moves; new ones follow",
            )
        return MissingReport(
            "too-old",
            f"{broker} last published its load {age_s:.0f} s ago, which is too old to use; check "
            "the broker",
        )
