"""Parts that long-running commands share: log lines, as text with a timestamp or as one JSON
object per line, the HTTP server of their metrics and probes, if the settings turn it on, and their
end.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

import typer
from prometheus_client import CollectorRegistry

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.cli.errors import reported
from pulsar_rebalancer.settings.merge_sources import Settings
from pulsar_rebalancer.settings.page_address_and_log_settings import LogSettings
from sinks.graceful_stop import Stop
from sinks.metrics.http_server_and_probes import Liveness, process_registry, serving
from sinks.metrics.service_metrics import DiskMetrics
from sinks.metrics.settings import listen_address
from sinks.printable import put

Level = Literal["info", "warning", "error"]


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Line:
    """One log line. `text`: for people; `event`: its kind, for programs; `fields`: the figures and
    names in the text.

    `cluster`: the cluster it is about, if there are several; otherwise empty.
    """

    text: str
    event: str = "note"
    level: Level = "info"
    fields: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = ""

    def __str__(self) -> str:
        parts = (self.cluster, "" if self.level == "info" else self.level, self.text)
        return ": ".join(part for part in parts if part)


LogLine = Callable[[Line | str], None]


@dataclass(frozen=True, slots=True)
class Log:
    """Prints log lines in the format of the settings. `clock`: timestamps."""

    settings: LogSettings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def write(self, entry: Line | str) -> None:
        """Prints to standard error; a plain text becomes a note."""
        self._print(entry if isinstance(entry, Line) else Line(entry), sys.stderr)

    def warn(self, text: str) -> None:
        """Prints a warning about a cluster's addresses to standard error."""
        self.write(Line(text, "admin-urls", "warning"))

    def show(self, line: Line) -> None:
        """Prints to standard output, for lines that are the command's result."""
        self._print(line, sys.stdout)

    @contextmanager
    def errors(self, *, debug: bool) -> Iterator[None]:
        """Logs the error that ends the process; see `pulsar_rebalancer.cli.errors.reported`."""
        with reported(debug, complain=lambda text: self.write(Line(text, "error", "error"))):
            yield

    def _print(self, line: Line, file: TextIO) -> None:
        now = self.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.settings.format == "json":
            document = {
                "ts": now,
                "level": line.level,
                "event": line.event,
                "text": line.text,
                **({"cluster": line.cluster} if line.cluster else {}),
                **line.fields,
            }
            put(json.dumps(document, separators=(",", ":"), default=str), file)
        else:
            put(f"{now} {line}", file)


def log_of(settings: Settings) -> Log:
    """The log of a service. Its first line names the source of the settings."""
    log = Log(settings.log)
    log.write(Line(f"settings: {settings.source}", "settings", fields={"source": settings.source}))
    return log


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
