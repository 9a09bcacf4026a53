"""Checks of what brokers report: whether there are figures, and which resources they measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Event

from pulsar_rebalancer.cli.finding import Finding, Rule, Status, evaluate, ok
from sinks.collector.broker_poll import Pass
from sinks.collector.encoding_telemetry import encode_report
from sinks.collector.open_cluster import Source, run_until_complete
from sinks.wire.codec import decode
from strategies.cluster.model import Figures, LoadReport
from strategies.cluster.round_state import reason_of
from strategies.errors import WireError
from strategies.fold.engine import EngineSettings, rules_of
from strategies.round.measured import compared, remedy_of

_NO_FIGURES = (
    "wait, or lower loadBalancerReportUpdateMaxIntervalMinutes in its broker.conf; if that "
    "does not help, see its log"
)

_ONE_FOR_ALL = "make all brokers measure one resource, as the other findings say"


def check_figures(source: Source, engine: EngineSettings, patience_s: float) -> Iterator[Finding]:
    """Checks that all brokers have new figures, by which they can be compared."""
    done = run_until_complete(source, patience_s, Event().wait)
    read = _read(source.cluster, done)
    yield from _check_reports(done, read)
    figures = {one.broker: one.figures for one in read.reports if one.figures is not None}
    yield from _check_measured(figures, engine)


@dataclass(frozen=True, slots=True)
class _ReadReports:
    """The reports that the job can use, and broker → why it rejects the others."""

    reports: tuple[LoadReport, ...]
    rejected: Mapping[str, str]


def _read(cluster: str, done: Pass) -> _ReadReports:
    """The reports as the job reads them."""
    reports, rejected = list[LoadReport](), dict[str, str]()
    for report in done.reports:
        try:
            record = decode(encode_report(cluster, report), b"")
        except WireError as error:
            rejected[report.broker] = error.text
        else:
            reports += [record] if isinstance(record, LoadReport) else []
    return _ReadReports(tuple(reports), rejected)


def _check_reports(done: Pass, read: _ReadReports) -> Iterator[Finding]:
    usable = len({*done.answered} - read.rejected.keys())
    text = f"{usable} of {len(done.answered) + len(done.missing)} brokers have figures"
    status: Status = "warn" if usable else "fail"
    rejected, missing = min(read.rejected, default=""), min(done.missing, default="")
    yield evaluate(
        "reports",
        text,
        Rule(
            bool(rejected),
            status,
            f"{text}: the reports of {rejected} are rejected: {read.rejected.get(rejected)}",
            "see what its broker reports: pulsar-admin broker-stats load-report",
        ),
        Rule(bool(missing), status, f"{text}: {done.missing.get(missing)}", _NO_FIGURES),
    )
    left_out = {one.broker: one.left_out for one in read.reports if one.left_out}
    if left_out:
        broker = min(left_out)
        more = f", and some of {len(left_out) - 1} more brokers" if len(left_out) > 1 else ""
        yield Finding(
            "figures",
            "warn",
            f"{broker} reports figures that are left out: {'; '.join(left_out[broker])}{more}",
            "look at the broker's log, and report it to Pulsar if it lasts",
        )


def _check_measured(figures: Mapping[str, Figures], engine: EngineSettings) -> Iterator[Finding]:
    """Checks which resources the brokers measure, where rounds compare by these."""
    rules = rules_of(engine)
    if not (figures and rules.by_mode.compares_measured):
        return
    found = compared(figures, engine.weights, rules.capacities, "")
    for skip in found.skips:
        remedy = f"set {skip.evidence['set']}" if "set" in skip.evidence else ""
        text = reason_of(skip).replace(f": {remedy}", "")
        yield Finding("measured", "warn", text, remedy or _ONE_FOR_ALL)
    if found.nowhere:
        names = ", ".join(found.nowhere)
        text = f"no broker measures {names}, so none is compared by it"
        yield Finding("measured", "warn", text, f"set {remedy_of(found.nowhere)}")
    if not (found.skips or found.nowhere):
        yield ok("measured", "all brokers measure what they are compared by")
