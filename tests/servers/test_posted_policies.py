"""`backtest --policies` on a recording of a real cluster names the bundles that Pulsar unloads when
the policies are posted, with every unload scope.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sinks.collector.collector import Collector
from sinks.collector.open_cluster import opened
from sinks.collector.settings import CollectorSettings
from sinks.topics.open_topics import open_publisher
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Owned
from tests.control_topic import Control, storing
from tests.servers.test_pulsar import passed
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import POLICY
from tests.world.uneven_log import recorded
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.bundle_users import Bundles, bundles, sending
from tools.waiting import eventually

pytestmark = pytest.mark.servers
_PATH = "clusters/c/namespaceIsolationPolicies/mine"


def policy(
    cluster: PulsarCluster, namespaces: list[str], brokers: int, scope: str | None
) -> Mapping[str, Any]:
    """One for the first brokers."""
    hosts = [name.rpartition(":")[0].replace(".", r"\.") for name in cluster.brokers[:brokers]]
    found = {**POLICY, "namespaces": namespaces, "primary": hosts}
    return found if scope is None else {**found, "unload_scope": scope}


def newest(control: Control) -> list[bytes]:
    """The newest record of each kind and broker: a recording of a cluster as it is."""
    found: dict[tuple[str | None, ...], bytes] = {}
    for line in reversed(list(control.read("telemetry"))):
        tree = json.loads(line)
        found.setdefault((tree["kind"], tree.get("note"), tree.get("broker")), line)
    return [*reversed(found.values())]


def named(records: list[bytes], posted: Mapping[str, Any], folder: Path) -> set[str]:
    """The bundles that the command names."""
    file = folder / "policies.json"
    file.write_text(json.dumps({"mine": posted}))
    done = rebalancer("backtest", recorded(folder, records), "--policies", file, "--json")
    return {one["bundle"] for one in done.json["unloads"]}


@pytest.mark.parametrize("kind", ["pulsar", "guarded_pulsar"])
def test_the_named_bundles_are_those_that_pulsar_unloads(
    cluster: PulsarCluster, control: Control, tmp_path: Path
) -> None:
    names = [f"t/{tmp_path.name}-{letter}" for letter in "abc"]
    with ExitStack() as ended:
        used: list[Bundles] = [ended.enter_context(bundles(cluster, name, 2)) for name in names]
        topics = [f"persistent://{name}/topic-{number}" for name in names for number in range(8)]
        ended.enter_context(sending(cluster, topics))
        often = CollectorSettings(policies_interval_ms=1, policies_repeat_ms=1)
        source = ended.enter_context(opened(cluster.settings(tmp_path), often, Event().wait))
        publisher = ended.enter_context(closing(open_publisher(topic_of(control.uri("telemetry")))))
        collector = Collector(source, storing(publisher))
        every = [bundle for one in used for bundle in one.all]

        def all_are_listed() -> bool:
            passed(collector)
            records = [decode(line, b"") for line in newest(control)]
            reports = [one for one in records if isinstance(one, LoadReport)]
            owned = [one.bundles for one in records if isinstance(one, Owned)]
            listed = {*chain(*owned, *(one.bundles.names for one in reports if one.bundles))}
            return {*every} <= listed and {*cluster.brokers} <= {one.broker for one in reports}

        cluster.post(_PATH, policy(cluster, names[:1], 2, "none"))
        ended.callback(cluster.delete, _PATH)
        for namespaces, brokers, scope, unloaded in (
            (names[:2], 2, None, names[1:2]),
            (names[1:], 2, "changed", [names[0], names[2]]),
            (names[1:], 1, "changed", names[1:]),
            ([f"{names[0]}|{names[1]}"], 1, "none", []),
            (names[1:2], 1, "all_matching", names[:2]),
        ):
            eventually(all_are_listed, 180, "not every bundle is reported", 0.5)
            posted = policy(cluster, namespaces, brokers, scope)
            before = {bundle: one.asked("unload", bundle) for one in used for bundle in one.all}
            wanted = named(newest(control), posted, tmp_path)
            cluster.post(_PATH, posted)
            after = {bundle: one.asked("unload", bundle) for one in used for bundle in one.all}
            seen = {bundle for bundle in every if after[bundle] > before[bundle]}
            told = {one for one in every if one.rpartition("/")[0] in unloaded}
            assert (wanted, seen) == (told, told), (scope, brokers)
