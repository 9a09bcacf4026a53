"""Changes between passes: brokers that joined, left, stopped or resumed answering, or whose figures
are not updated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from pulsar_rebalancer.cli.service_log import Level, Line
from sinks.collector.broker_poll import Pass, Report
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError

#: Pulsar's default of loadBalancerReportUpdateMaxIntervalMinutes: the longest interval between two
#: load reports.
STOCK_INTERVAL_MS = 15 * 60_000


class _Written(msgspec.Struct):
    """The time at which a broker wrote its report to the metadata store; reports of both load
    managers may lack it.
    """

    lastUpdate: int | None = None
    updatedAt: int | None = None


@dataclass(slots=True)
class _Since:
    """The time that a broker's report names, since when it does, and whether it was said that the
    broker stands still.
    """

    written: int
    ts: int
    said: bool = False


@dataclass
class Changes:
    """Compares passes. `standstill_ms`: figures of a broker that are not written again for longer
    count as standing still.
    """

    standstill_ms: int = 2 * STOCK_INTERVAL_MS
    _silent: dict[str, int] = field(default_factory=dict, init=False)
    _written: dict[str, _Since] = field(default_factory=dict, init=False)
    _known: frozenset[str] | None = field(default=None, init=False)

    def of(self, done: Pass) -> Iterator[Line]:
        """The changes since the previous pass; for the first pass, what is wrong already."""
        listed = frozenset(done.answered) | done.missing.keys()
        if self._known is not None:
            yield from _came_and_left(self._known, listed)
        self._known = listed
        self._silent = {name: ts for name, ts in self._silent.items() if name in listed}
        self._written = {name: since for name, since in self._written.items() if name in listed}
        yield from self._answers(done)
        for report in done.reports:
            yield from self._stands_still(report)

    def _answers(self, done: Pass) -> Iterator[Line]:
        for broker, why in sorted(done.missing.items()):
            if broker not in self._silent:
                self._silent[broker] = done.ts
                yield _line(
                    "broker-silent",
                    f"{broker} reports no figures: {why}",
                    broker,
                    level="warning",
                    why=why,
                )
        for broker in sorted(self._silent.keys() - done.missing.keys()):
            silent_ms = done.ts - self._silent.pop(broker)
            yield _line(
                "broker-answers",
                f"{broker} reports figures again after {silent_ms / 1000:.0f} s",
                broker,
                silent_ms=silent_ms,
            )

    def _stands_still(self, report: Report) -> Iterator[Line]:
        """A broker that answers but no longer writes its figures: the metadata store is
        unreachable, or the broker is frozen.
        """
        try:
            written_at = msgspec.json.decode(report.body, type=_Written)
        except (ValueError, RecursionError):
            return
        written = written_at.updatedAt if written_at.lastUpdate is None else written_at.lastUpdate
        if written is None:
            return
        last = self._written.get(report.broker)
        if last is None or last.written != written:
            self._written[report.broker] = _Since(written, report.ts)
            if last is not None and last.said:
                yield _line(
                    "broker-moves", f"{report.broker} writes its load report again", report.broker
                )
            return
        still_ms = report.ts - last.ts
        if still_ms > self.standstill_ms and not last.said:
            last.said = True
            text = (
                f"{report.broker} stands still: it answers, but has not written its load "
                f"report for {still_ms // 60_000} min; look for "
                "blocked threads in a thread dump, and restart it"
            )
            yield _line(
                "broker-stands-still", text, report.broker, level="warning", still_ms=still_ms
            )


def standstill_ms(admin: PulsarAdmin) -> int:
    """Twice the longest interval between reports of a broker; Pulsar's default if the configuration
    cannot be read.
    """
    try:
        minutes = admin.configuration().get("loadBalancerReportUpdateMaxIntervalMinutes", "")
    except AdminError:
        minutes = ""
    return 2 * (
        int(minutes) * 60_000 if minutes.isdecimal() and int(minutes) else STOCK_INTERVAL_MS
    )


def _came_and_left(before: frozenset[str], now: frozenset[str]) -> Iterator[Line]:
    for broker in sorted(now - before):
        yield _line("broker-came", f"{broker} joined", broker)
    for broker in sorted(before - now):
        yield _line(
            "broker-left", f"{broker} left the cluster's list of brokers", broker, level="warning"
        )


def _line(event: str, text: str, broker: str, level: Level = "info", **more: object) -> Line:
    fields: Mapping[str, object] = {"broker": broker, **more}
    return Line(text, event, level, fields)
