"""Checks of what brokers report: whether there are figures, and which resources they measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Event

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.collector.broker_poll import Pass
from sinks.collector.encoding_telemetry import encode_report
from sinks.collector.open_cluster import Source, run_until_complete
from sinks.wire.codec import decode
from strategies.engine import EngineSettings, rules_of
from strategies.errors import WireError
from strategies.measured import compared, remedy_of
from strategies.model import Figures, LoadReport
from strategies.round_state import reason_of

_NO_FIGURES = (
    "wait, or lower loadBalancerReportUpdateMaxIntervalMinutes in its broker.conf; if that "
    "does not help, see its log"
)

_ONE_FOR_ALL = "make all brokers measure one resource, as the other findings say"


def check_figures(source: Source, engine: EngineSettings, patience_s: float) -> Iterator[Finding]:
    """Checks that all brokers have new figures, by which they can be compared."""
    done = run_until_complete(source, patience_s, Event().wait)
    yield _check_reports(done)
    yield from _check_measured(_figures(source.cluster, done), engine)


def _check_reports(done: Pass) -> Finding:
    text = f"{len(done.answered)} of {len(done.answered) + len(done.missing)} brokers have figures"
    if not done.missing:
        return ok("reports", text)
    return Finding(
        "reports",
        "warn" if done.answered else "fail",
        f"{text}: {done.missing[min(done.missing)]}",
        _NO_FIGURES,
    )


def _figures(cluster: str, done: Pass) -> dict[str, Figures]:
    """Broker → its figures."""
    found = dict[str, Figures]()
    for report in done.reports:
        with suppress(WireError):
            record = decode(encode_report(cluster, report), b"")
            if isinstance(record, LoadReport) and record.figures is not None:
                found[record.broker] = record.figures
    return found


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
