"""`rebalancer status`: the present state of each cluster on one screen, and what to do."""

from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.explain.subject import UnknownSubject
from pulsar_rebalancer.decisions.read_status import Status, pause_of, read_status
from pulsar_rebalancer.decisions.status_screen import as_document, status_lines
from sinks.graceful_stop import wall_clock_ms


def status(
    *,
    cluster: options.OnlyCluster = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show the newest N commands of a cluster.")
    ] = 5,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show the state of each cluster in words, what to do, its last commands and their outcomes.

    Reads the topics in the settings, of telemetry and rejected records only those of the last hour.
    The executor's pause is that of this machine.
    """
    settings = options.installation(config, overrides)
    now_ms = wall_clock_ms()
    found = read_status(
        settings.connections,
        now_ms,
        last,
        approval_required=settings.executor.approval == "required",
    )
    console.warn(found.skipped)
    if not found.clusters and not found.rejected:
        raise options.nothing_found("round, report or command", settings)
    if cluster is not None:
        found = _only(found, cluster)
    pause = pause_of(settings.executor)
    body = as_document(found, pause, now_ms, settings.engine.round)
    lines = status_lines(found, pause, now_ms, settings.engine.round)
    console.answer("status", body, *lines, as_json=as_json)


def _only(found: Status, cluster: str) -> Status:
    """The status of one cluster. Raises UnknownSubject if only others have records."""
    part = found.of(cluster)
    if found.clusters and not part.clusters:
        others = ", ".join(one.cluster for one in found.clusters)
        raise UnknownSubject(f"{cluster}: no record names this cluster; there are {others}")
    return part
