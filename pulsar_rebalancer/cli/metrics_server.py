"""The HTTP server of `run`, `collect`, `execute` and `notify`, if the settings turn it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from pulsar_rebalancer.cli.log_lines import Line, LogLine
from sinks.metrics.liveness import Liveness
from sinks.metrics.server import serving
from sinks.metrics.settings import MetricsSettings, listen_address


@contextmanager
def metrics_served(
    settings: MetricsSettings, registry: CollectorRegistry, liveness: Liveness, log: LogLine
) -> Iterator[None]:
    """Serves metrics and probes during the block, and logs their address. Raises SinkError."""
    address = listen_address(settings)
    if address is None:
        yield
        return
    with serving(address, registry, liveness) as used:
        log(Line(f"metrics: http://{used}/metrics", "metrics", fields={"address": str(used)}))
        yield
