"""Several Pulsar clusters in one settings file: values in [clusters.NAME] override [pulsar] for
that cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pulsar_rebalancer.settings.sources import Assignment

_TABLE = "clusters."


def split_by_cluster(
    given: Sequence[Assignment],
) -> tuple[list[Assignment], dict[str, list[Assignment]]]:
    """Splits values into common ones and those of each named cluster, the latter with paths of
    [pulsar].
    """
    common: list[Assignment] = []
    named: dict[str, list[Assignment]] = {}
    for one in given:
        name, _, key = one.path.removeprefix(_TABLE).rpartition(".")
        if one.path.startswith(_TABLE) and name:
            named.setdefault(name, []).append(replace(one, path=f"pulsar.{key}"))
        elif one.path.startswith(_TABLE) and one.value == {}:
            named.setdefault(key, [])
        else:
            common.append(one)
    for name, own in named.items():
        if not any(one.path == "pulsar.cluster" for one in own):
            own.insert(0, Assignment("pulsar.cluster", name, "file", f"[clusters.{name}]"))
    return common, named


def named_complaint(name: str, complaint: str) -> str:
    """A complaint about a cluster's settings, with the path where the value was written."""
    return (
        f"{_TABLE}{name}.{complaint.removeprefix('pulsar.')}"
        if complaint.startswith("pulsar.")
        else complaint
    )
