"""Scrapes of registries at regular intervals of virtual time, as series of a `promtool` test."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from prometheus_client import CollectorRegistry

#: Scrape interval of docker/prometheus/prometheus.yml.
INTERVAL_S = 15


class Scrapes:
    """What Prometheus stores of some processes. The first scrape is at 0 s."""

    def __init__(self) -> None:
        self._values: dict[str, list[float | None]] = {}
        self._count = 0

    def scrape(self, targets: Mapping[str, CollectorRegistry | None]) -> None:
        """Scrapes each target once; None: it does not answer."""
        for name, registry in targets.items():
            target = {"job": "pulsar-rebalancer", "instance": f"{name}:9464"}
            self._add(_series("up", target), float(registry is not None))
            for series, value in () if registry is None else samples_of(registry, target):
                self._add(series, value)
        self._count += 1
        for values in self._values.values():
            values.extend([None] * (self._count - len(values)))

    @property
    def minutes(self) -> int:
        """Duration of the recording, in whole minutes."""
        return self._count * INTERVAL_S // 60

    def input_series(self) -> list[dict[str, str]]:
        """The field `input_series` of a test."""
        return [
            {"series": series, "values": notation(values)}
            for series, values in sorted(self._values.items())
        ]

    def _add(self, series: str, value: float) -> None:
        values = self._values.setdefault(series, [])
        assert len(values) <= self._count, f"{series} has two samples"
        values += [None] * (self._count - len(values))
        values.append(value)


def samples_of(
    registry: CollectorRegistry, target: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    """Series and value of each sample, as the text format has them."""
    for metric in registry.collect():
        for sample in metric.samples:
            if not sample.name.endswith("_created"):
                yield _series(sample.name, {**sample.labels, **target}), sample.value


def notation(values: Iterable[float | None]) -> str:
    """Values as `promtool` reads them; a series that ends is stale, as after a failed scrape."""
    parts, before = [], False
    for value, run in groupby(values, key=repr):
        count = len(list(run))
        if value == "None":
            parts += ["stale"] if before else []
            count -= before
            parts += [f"_x{count}"] if count else []
        else:
            parts.append(_number(float(value)) + (f"+0x{count - 1}" if count > 1 else ""))
        before = value != "None"
    return " ".join(parts)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{value:.0f}" if value == int(value) else repr(value)


def _series(name: str, labels: Mapping[str, Any]) -> str:
    return name + "{" + ",".join(f"{key}={json.dumps(labels[key])}" for key in sorted(labels)) + "}"
