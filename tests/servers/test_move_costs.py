"""What a move costs, measured on real brokers of both load managers while messages flow."""

import threading
from contextlib import closing
from pathlib import Path

import pytest

from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.outcome_status_and_reason import Allowance
from sinks.executor.pause_meter import BundleUse, CostMeter
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.wire.record_decoding import read_command
from sinks.wire.record_encoding import encode_command
from tests.control_topic import command
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.bundle_users import Bundles, sending
from tools.traffic.racing import topics_in
from tools.waiting import eventually

pytestmark = pytest.mark.servers
_TOPICS, _LONG_S, _MEASURE_MS = 3, 120.0, 60_000


@pytest.mark.parametrize("kind", ["pulsar", "guarded_pulsar"])
def test_topics_and_the_first_message_are_measured(cluster: PulsarCluster, tmp_path: Path) -> None:
    manager = "extensible" if cluster.guarded else "modular"
    namespace = cluster.namespace(f"t/costs-{manager}", 4)
    wait = threading.Event().wait
    with closing(PulsarAdmin(cluster.settings(tmp_path))) as admin:
        used = Bundles(cluster, admin, namespace)
        bundle = used.all[0]
        meter = CostMeter(admin, _MEASURE_MS, wait)
        with sending(cluster, topics_in(bundle, _TOPICS)):
            source = used.owner(bundle)

            def used_as() -> BundleUse:
                meter.begin_wave()
                return meter.before(bundle, source)

            def has_traffic() -> bool:
                return used_as().busiest is not None and used_as().topics == _TOPICS

            eventually(has_traffic, _LONG_S, lambda: f"no topic has traffic: {used_as()}")
            use = used_as()
            assert (use.topics, use.had_clients, use.manager) == (_TOPICS, True, manager)

            move = command(bundle, source, used.others(bundle)[0])
            allowance = Allowance(refuse_repair=lambda _: "")
            effect = Applier(admin, RetryPolicy(30_000), wait).apply(
                read_command(encode_command(move)), allowance
            )
            first_ms = meter.first_message_ms(use, effect.owner_after, effect.released_s)

    assert (effect.status, effect.owner_after) == ("applied", move.destination)
    assert effect.unowned_ms is not None
    assert first_ms is not None
    print(manager, "unowned", effect.unowned_ms, "ms, first message", first_ms, "ms")
