"""Registries and labels: a registry per process, and labels with a bounded number of values.

Prometheus keeps a time series for every value of a label. Clusters and codes come from records, so
their number is limited here, whatever the records contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

#: Value of a label that stands for all values above the limit.
OTHER = "other"
#: Clusters that a process names: twice those of the largest job that was measured. A scrape of
#: 1,000 clusters is 3.6 MiB.
MOST_CLUSTERS = 2_000
_CODE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class BoundedLabel:
    """The first `most` values of a label are kept; all later ones become `other`. `on_full` gets
    the first of these, once.
    """

    def __init__(self, most: int = 100, on_full: Callable[[str], object] | None = None) -> None:
        self._most = most
        self._on_full = on_full
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """The value, or `other`."""
        if value not in self._known:
            if len(self._known) >= self._most:
                on_full, self._on_full = self._on_full, None
                if on_full is not None:
                    on_full(value)
                return OTHER
            self._known.add(value)
        return value

    def release(self, value: str) -> bool:
        """Makes room for another value; whether this one was kept. Its series are the caller's to
        remove.
        """
        kept = value in self._known
        self._known.discard(value)
        return kept


def code_of(reason: str | None) -> str:
    """The code of a reason (`code: sentence`): empty without a reason, `other` without a code."""
    code = (reason or "").partition(":")[0]
    return code if not code or _CODE.fullmatch(code) else OTHER


def process_registry(version: str) -> CollectorRegistry:
    """A new registry with the version of the product in it."""
    registry = CollectorRegistry()
    Info(
        "pulsar_rebalancer_build", "Version of the process, as label; always 1", registry=registry
    ).info({"version": version})
    return registry


def register(
    registry: CollectorRegistry, *table: tuple[Callable[..., Any], str, str, Sequence[str]]
) -> dict[str, Any]:
    """Registers metrics by kind, name, meaning and labels; returns them by name. Their full names
    begin with `pulsar_rebalancer_`.
    """
    return {
        name: kind(f"pulsar_rebalancer_{name}", meaning, labels, registry=registry)
        for kind, name, meaning, labels in table
    }


def remove_cluster(families: Iterable[Counter | Gauge], cluster: str) -> None:
    """Removes all series of a cluster."""
    for family in families:
        family.remove_by_labels({"cluster": cluster})


def set_all(
    gauge: Gauge, cluster: str, figures: Iterable[tuple[str, float]], before: Iterable[str]
) -> list[str]:
    """Sets the gauge for (cluster, name) of each figure; removes the names in `before` that have
    none now. Returns the names.
    """
    now = dict(figures)
    for name, figure in now.items():
        gauge.labels(cluster, name).set(figure)
    for name in before:
        if name not in now:
            gauge.remove(cluster, name)
    return list(now)
