"""One pass over brokers with the extensible load manager: reports published since the last pass,
and older ones that are still valid.

These brokers publish when their load changes, at the latest after 15 minutes. They use each other's
newest report until it is withdrawn or older than `loadBalancerBrokerLoadDataTTLInSeconds`. A pass
does the same: it ends with the newest figures of every broker that answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from sinks.collector.broker_poll import BrokerPoll, Kind, MissingReport, Pass, Report
from sinks.collector.load_topics import WITHDRAWN

FIGURES: Kind = "broker-load-data"


@dataclass(slots=True)
class _Known:
    """The newest report of a broker. `published_ms`: when it arrived; the timestamp of the report
    itself grows whenever a pass repeats it.
    """

    report: Report
    published_ms: int


@dataclass
class ExtensiblePoll:
    """`take`: the reports since the last call, in order of arrival (`LoadTopics.take`); `liveness`:
    asks each broker for something, and does not use the content of its
    answer; `owned`: the bundles of brokers, where they
    changed (`OwnerPoll.run`); `keep_ms`: how long a broker's report stays valid.
    """

    take: Callable[[], list[Report]]
    liveness: BrokerPoll
    owned: Callable[[Sequence[str]], tuple[Report, ...]]
    keep_ms: int
    clock_ms: Callable[[], int]
    _newest: dict[tuple[Kind, str], _Known] = field(default_factory=dict)

    def run(self, brokers: Sequence[str]) -> Pass:
        """Runs one pass; also passes on reports of brokers not listed any more: they may be their
        last. Raises SinkError.
        """
        arrived = [self._note(report) for report in self.take()]
        polled = self.liveness.run(brokers)
        owned = self.owned(polled.answered)
        arrived += [self._note(report) for report in self.take()]
        listed = set(brokers)
        self._newest = {key: known for key, known in self._newest.items() if key[1] in listed}
        fresh = {(report.kind, report.broker) for report in arrived}
        repeated = self._still_valid(fresh, polled.missing)
        found = {
            broker: why
            for broker in brokers
            if broker not in polled.missing and (why := self._missing_reason(broker))
        }
        missing = {**polled.missing, **{broker: why.text for broker, why in found.items()}}
        codes = {**polled.missing_codes, **{broker: why.code for broker, why in found.items()}}
        return Pass(
            polled.number,
            self.clock_ms(),
            (*arrived, *repeated),
            tuple(broker for broker in brokers if broker not in missing),
            missing,
            owned,
            codes,
            answering=tuple(found),
        )

    def _note(self, report: Report) -> Report:
        """Keeps the report. The next report of a broker gets a later timestamp, even within the
        same millisecond.
        """
        key, published_ms = (report.kind, report.broker), report.ts
        last = self._newest.get(key)
        if last is not None and report.ts <= last.report.ts:
            report = replace(report, ts=last.report.ts + 1)
        self._newest[key] = _Known(report, published_ms)
        return report

    def _still_valid(
        self, fresh: Collection[tuple[Kind, str]], silent: Collection[str]
    ) -> list[Report]:
        """Earlier reports that are still valid. Their equal content marks them as repeated samples
        in rounds. `silent`: brokers that do not answer; their figures have to age.
        """
        now, repeated = self.clock_ms(), list[Report]()
        for key, known in sorted(self._newest.items(), key=itemgetter(0)):
            valid = now - known.published_ms <= self.keep_ms and known.report.body != WITHDRAWN
            if valid and key not in fresh and key[1] not in silent:
                known.report = replace(known.report, ts=max(now, known.report.ts + 1))
                repeated.append(known.report)
        return repeated

    def _missing_reason(self, broker: str) -> MissingReport | None:
        """Why a live broker has no figures; None if it has."""
        known = self._newest.get((FIGURES, broker))
        if known is None:
            return MissingReport(
                "not-published",
                f"{broker} has not published its load since the collector started; it does so "
                "when its load changes, or after 15 minutes",
            )
        age_ms = self.clock_ms() - known.published_ms
        if age_ms > self.keep_ms:
            return MissingReport(
                "too-old",
                f"{broker} last published its load {age_ms / 1000:.0f} s ago, which is too old to "
                "use; check the broker",
            )
        if known.report.body != WITHDRAWN:
            return None
        return MissingReport(
            "withdrawn",
            f"{broker} withdrew its figures {age_ms / 1000:.0f} s ago, as brokers do when a bundle "
            "moves; new ones follow",
        )
