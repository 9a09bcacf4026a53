"""Reads metrics as a scraper does: samples by name and labels, and answers over HTTP."""

import http.client
from collections.abc import Mapping
from contextlib import closing

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sinks.metrics.settings import ListenAddress

PREFIX = "pulsar_rebalancer_"


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == PREFIX + name
    }


def get(
    address: ListenAddress, path: str, method: str = "GET", headers: Mapping[str, str] = {}
) -> tuple[int, str, str]:
    """Status, content type and text of the answer."""
    with closing(http.client.HTTPConnection(*address, timeout=60)) as connection:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def scraped(text: str) -> dict[tuple[str, ...], float]:
    """Values of a text answer by name and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
