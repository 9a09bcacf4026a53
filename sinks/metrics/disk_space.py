"""Metrics of the disks that a process writes to: a full disk stops it."""

import math
import shutil
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, Gauge

from sinks.topics.topic_settings import Topics


class DiskSpace(NamedTuple):
    """Bytes of a file system: all, and those that this user may still write."""

    size: float
    free: float


def disk_space(folder: Path) -> DiskSpace:
    """The file system of a folder, or of its nearest parent that exists; NaN if it cannot be
    read.
    """
    try:
        there = next(above for above in (folder, *folder.parents) if above.exists())
        found = shutil.disk_usage(there)
    except OSError:
        return DiskSpace(math.nan, math.nan)
    return DiskSpace(found.total, found.free)


def file_topics(topics: Topics, names: Container[str]) -> dict[str, Path]:
    """Setting and folder of each of these topics that is in a folder."""
    return {
        f"topics.{name}": topic.folder
        for name, topic in topics.named()
        if name in names and topic.scheme == "file"
    }


class DiskMetrics:
    """Reads the free space of a fixed number of folders at every request."""

    def __init__(
        self,
        registry: CollectorRegistry,
        folders: Mapping[str, Path],
        space: Callable[[Path], DiskSpace] = disk_space,
    ) -> None:
        """`folders`: setting that names the folder → folder."""
        free = Gauge(
            "pulsar_rebalancer_disk_free_bytes",
            "Free space of the disk with this folder",
            ["folder"],
            registry=registry,
        )
        size = Gauge(
            "pulsar_rebalancer_disk_size_bytes",
            "Size of the disk with this folder",
            ["folder"],
            registry=registry,
        )
        for setting, folder in folders.items():
            free.labels(setting).set_function(_figure(space, folder, "free"))
            size.labels(setting).set_function(_figure(space, folder, "size"))


def _figure(
    space: Callable[[Path], DiskSpace], folder: Path, name: Literal["size", "free"]
) -> Callable[[], float]:
    def read() -> float:
        figure: float = getattr(space(folder), name)
        return figure

    return read
