"""Everything of a Pulsar cluster that a program could have changed: topics, bundles and their
owners, policies, dynamic settings.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from sinks.pulsar_api.admin import PulsarAdmin
from tools.servers.pulsar_cluster import PulsarCluster, token_of


def snapshot(cluster: PulsarCluster, folder: Path) -> dict[str, Any]:
    """What the admin API says, by path."""
    headers = {"Authorization": f"Bearer {token_of('admin')}"} if cluster.guarded else {}
    base = f"http://{cluster.brokers[0]}/admin/v2"
    found: dict[str, Any] = {}
    with httpx.Client(headers=headers, follow_redirects=True, timeout=30) as client:

        def read(path: str) -> Any:
            answer = client.get(f"{base}/{path}")
            assert answer.status_code in (200, 204, 404), f"{path}: {answer.status_code}"
            found[path] = answer.json() if answer.content and answer.status_code == 200 else None
            return found[path]

        read("clusters")
        read("clusters/c/namespaceIsolationPolicies")
        read("brokers/configuration/values")
        for tenant in read("tenants"):
            read(f"tenants/{tenant}")
            for namespace in read(f"namespaces/{tenant}"):
                read(f"namespaces/{namespace}")  # its policies, with its bundles
                found[f"{namespace}/topics"] = sorted(read(f"namespaces/{namespace}/topics"))
    with closing(PulsarAdmin(cluster.settings(folder))) as admin:
        for namespace in [path for path in found if path.startswith("namespaces/t/")]:
            name = namespace.removeprefix("namespaces/").removesuffix("/topics")
            for range_ in admin.ranges(name):
                found[f"owner of {name}/{range_}"] = admin.owner(f"{name}/{range_}")
    return found
