"""What `run`, `collect`, `execute`, `notify` and `serve` have in common: the HTTP server of their
metrics and probes, if the settings turn it on, and their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import typer
from prometheus_client import CollectorRegistry

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.log_lines import Line, Log
from pulsar_rebalancer.settings.load import Settings
from sinks.metrics.disk import DiskMetrics
from sinks.metrics.exposition import Liveness, process_registry, serving
from sinks.metrics.settings import listen_address
from sinks.processes import Stop

M = TypeVar("M")


@contextmanager
def measured(
    settings: Settings,
    log: Log,
    stop: Stop,
    make: Callable[[CollectorRegistry, Liveness], M],
    *,
    still_s: float,
    ready_after: str,
    loops: Iterable[str] = ("",),
    folders: Mapping[str, Path] | None = None,
) -> Iterator[M]:
    """The metrics of a process, served during the block together with its probes; logs their
    address. `still_s`, `ready_after`, `loops`: see Liveness; `folders`: those it writes to, by
    their settings. Raises SinkError.
    """
    liveness = Liveness(still_s, ready_after, loops=loops, is_stopping=stop.is_set)
    registry = process_registry(settings.engine.version)
    if folders is not None:
        DiskMetrics(registry, folders)
    metrics, address = make(registry, liveness), listen_address(settings.metrics)
    if address is None:
        yield metrics
        return
    with serving(address, registry, liveness) as used:
        log.write(Line(f"metrics: http://{used}/metrics", "metrics", fields={"address": str(used)}))
        yield metrics


def end(log: Log, by: str, what: str = "", **fields: object) -> None:
    """Logs the end of a process, and what it has done; exits with its own code after Ctrl-C. `by`:
    what ended it, usually a signal.
    """
    log.write(Line(f"stopped ({by}){what}", "stopped", fields={"by": by, **fields}))
    if by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)
