"""A bundle with two hot topics on real brokers of both load managers: cut between them, its
children carry what the round predicted, and the one that it named goes where it said.
"""

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.collector.collector import Collector
from sinks.collector.hot_bundle_topics import read_topics
from sinks.collector.open_cluster import load_manager_of, opened
from sinks.collector.settings import CollectorSettings
from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.outcome_status_and_reason import Allowance
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.wire.record_decoding import decode, read_command
from sinks.wire.record_encoding import encode_command
from strategies.bundles import topic_hash
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, LoadReport, Resource, TelemetryRecord
from strategies.filters.filter_order_and_settings import FilterSettings, LoadManager
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import RoundSettings
from strategies.splitting.bundle_limits import SplitSettings
from tests.world.splits import children_of
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.bundle_users import Bundles, sending
from tools.traffic.racing import topics_in
from tools.waiting import eventually

pytestmark = pytest.mark.servers
_LONG_S = 120.0
_PRODUCERS = (6, 5, 1, 1)  # of each topic, with ten messages a second each
_SPLITS = SplitSettings(True, "flow_or_qps_equally_divide", max_msg_rate=100, hit_count=0)
_SETTINGS = EngineSettings(splitting=_SPLITS, round=RoundSettings(2_000, lateness_ms=60_000))
_PASSES = CollectorSettings(pass_interval_ms=1_000, hot_bundle_mb=0.1)


def by_traffic(record: TelemetryRecord) -> TelemetryRecord:
    """The brokers report what one machine uses: here usage follows the messages of each."""
    if isinstance(record, LoadReport) and record.figures is not None:
        cpu = Resource(record.figures.traffic.msg_rate, 500.0)
        none = Resource(0.0, 1.0)
        figures = replace(record.figures, cpu=cpu, memory=none, direct_memory=none)
        record = replace(record, figures=figures)
    return record


def engine_for(manager: LoadManager) -> Engine:
    return Engine(replace(_SETTINGS, filters=FilterSettings(manager)))


def applied(order: Command, admin: PulsarAdmin) -> bool:
    applier = Applier(admin, RetryPolicy(30_000), threading.Event().wait)
    allowed = Allowance(refuse_repair=lambda _: "")
    return applier.apply(read_command(encode_command(order)), allowed).status == "applied"


@pytest.mark.parametrize("kind", ["pulsar", "guarded_pulsar"])
def test_two_hot_topics_are_cut_apart_and_children_carry_what_was_predicted(
    cluster: PulsarCluster, tmp_path: Path
) -> None:
    settings, wait = cluster.settings(tmp_path), threading.Event().wait
    namespace = cluster.namespace(f"t/hot-{tmp_path.name[-1]}", 4)
    with closing(PulsarAdmin(settings)) as admin:
        used = Bundles(cluster, admin, namespace)
        bundle = used.all[0]
        topics = topics_in(bundle, len(_PRODUCERS))
        busy = [topics[at] for at, producers in enumerate(_PRODUCERS) for _ in range(producers)]
        with (
            sending(cluster, [*busy, *topics_in(used.all[1], 1)]),
            opened(settings, _PASSES, wait) as source,
        ):
            engine = engine_for(load_manager_of(admin, settings))
            store, commands = InMemoryStore(), list[Command]()

            def publish(_: object, lines: Sequence[bytes]) -> None:
                records = (by_traffic(decode(line, b"")) for line in lines)
                events = (event for record in records for event in engine.fold(record, store))
                commands.extend(event for event in events if isinstance(event, Command))

            collector = Collector(source, publish)

            def decided() -> bool:
                collector.step()
                return any(one.boundaries for one in commands)

            eventually(decided, _LONG_S, lambda: f"no split: {commands}", every_s=2)
            command = next(one for one in commands if one.boundaries)
            assert (command.bundle, command.algorithm) == (bundle, "specified_positions_divide")
            hot = [topic_hash(topic) for topic in topics[:2]]
            assert min(hot) < command.boundaries[0] <= max(hot)
            assert applied(command, admin)
            children = children_of(bundle, command.boundaries)
            shares: Sequence[float] = ()

            def measured() -> bool:
                nonlocal shares
                found = [read_topics(admin, child, used.owner(child)) for child in children]
                loads = [sum(topic[2] for topic in one.topics) for one in found]
                shares = [load / sum(loads) for load in loads] if all(loads) else ()
                return {topic[0] for one in found for topic in one.topics} >= {*topics}

            eventually(measured, _LONG_S, "the children's topics are not listed", every_s=1)
            wait(12)  # two updates of figures, so that none is of the time before the split
            assert measured()

            def moves() -> list[Command]:
                decided()
                return [one for one in commands if one.bundle == command.evidence["leaves"]]

            eventually(lambda: bool(moves()), _LONG_S, lambda: f"it stays: {commands}", every_s=2)
            assert [applied(move, admin) for move in moves()] == [True]
            assert used.owner(moves()[0].bundle) == command.evidence["destination"]
    predicted = [float(str(command.evidence[f"{part}_share"])) for part in ("lower", "upper")]
    assert shares == pytest.approx(predicted, rel=0.1)
