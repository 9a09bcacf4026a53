"""Collector, admin client and executor on a real Pulsar cluster: what its statuses mean, and what
really becomes of a bundle.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.doctor.admin_and_clocks import check_cluster
from pulsar_rebalancer.lab.shadow.ownership import Moved, OwnershipWatch
from pulsar_rebalancer.settings.merge_sources import load
from sinks.collector.broker_poll import Pass
from sinks.collector.collector import Collector
from sinks.collector.open_cluster import opened
from sinks.collector.settings import CollectorSettings
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import open_publisher
from sinks.wire.record_decoding import decode
from strategies.cluster.model import LoadReport, Policies, Sweep
from strategies.errors import NotFound, Refused
from strategies.filters.policies import read_policies
from tests.control_topic import Control, command, storing
from tests.servers.pulsar_commands import around, execute, words
from tests.topic_uris import topic_of
from tests.unit.command_line import rebalancer
from tests.unit.test_collector import POLICY
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.bundle_users import Bundles, bundles, traffic
from tools.waiting import eventually

pytestmark = pytest.mark.servers
#: Both load managers, of the release that is tried most and of 5.0.
BOTH = pytest.mark.parametrize(
    "kind",
    [
        pytest.param("pulsar", id="modular"),
        pytest.param("guarded_pulsar", id="extensible-with-tokens"),
        pytest.param("pulsar50", id="modular-5.0", marks=pytest.mark.slow),
        pytest.param("guarded_pulsar50", id="extensible-with-tokens-5.0", marks=pytest.mark.slow),
    ],
)


@BOTH
def test_a_transfer_arrives_at_its_destination(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    wanted = {bundle: used.others(bundle)[0] for bundle in used.all}

    def arrived() -> bool:
        """Pulsar may lose a destination: then the outcome has told where the bundle is, and the
        next command is for it.
        """
        moves = [
            command(bundle, used.owner(bundle), to)
            for bundle, to in wanted.items()
            if used.owner(bundle) != to
        ]
        known = len(control.outcomes())
        control.send(*moves)
        done = execute(cluster.settings(tmp_path), control)
        outcomes = control.outcomes()[known:]
        assert (done.code, len(outcomes)) == (exit_codes.OK, len(moves)), done.err
        for move, outcome in zip(moves, outcomes, strict=True):
            now, code = used.owner(move.bundle), (outcome.reason or "").partition(":")[0]
            ends = {move.destination: ("applied", ""), move.source: ("failed", "came-back")}
            verdict = (outcome.status, "" if code == "repaired" else code)
            assert verdict == ends.get(now, ("applied", "elsewhere"))
            assert outcome.owner_after == now
        return {bundle: used.owner(bundle) for bundle in wanted} == wanted

    eventually(arrived, 300, f"not all bundles arrive: {control.verdicts()}")
    assert ("applied", "") in control.verdicts()


@BOTH
def test_a_split_gives_two_bundles(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    bundle = used.all[1]
    control.send(command(bundle, used.owner(bundle), action="split"))

    assert execute(cluster.settings(tmp_path), control).code == exit_codes.OK

    assert control.verdicts() == [("applied", "")]
    assert (len(used.all), bundle in used.all) == (5, False)


@BOTH
def test_what_needs_no_call_or_may_not_be_called_is_not_called(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    moved, left, right, _ = used.all
    stale = f"{used.namespace}/0x00000000_0x12345678"
    heartbeat = f"pulsar/{cluster.brokers[0]}/0x00000000_0xffffffff"
    source, other = used.owner(left), used.others(left)[0]
    control.send(
        command(left, other, source),
        command(right, used.owner(right), "127.0.41.9:1"),
        command(stale, source, other),
        command(heartbeat, cluster.brokers[0], cluster.brokers[1]),
        command(moved, used.owner(moved), used.others(moved)[0]),
    )

    execute(cluster.settings(tmp_path), control)

    *verdicts, _ = control.verdicts()
    assert verdicts == [
        ("already-done", "at-destination"),
        ("refused", "destination-gone"),
        ("refused", "no-such-bundle"),
        ("refused", "system-bundle"),
    ]
    assert {used.asked("unload", bundle) for bundle in (left, right, stale, heartbeat)} == {0}
    assert used.asked("unload", moved) >= 1


@BOTH
def test_pulsar_does_not_check_isolation_and_the_executor_does(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    bundle = used.all[0]
    source, (allowed, forbidden) = used.owner(bundle), used.others(bundle)
    with isolation(cluster, used.namespace, [source, allowed]):
        control.send(command(bundle, source, forbidden))
        execute(cluster.settings(tmp_path), control)
        (refused,) = control.outcomes()
        assert (refused.status, used.owner(bundle)) == ("refused", source)
        assert "isolation" in (refused.reason or "")

        used.move(bundle, forbidden)  # never arrives if Pulsar begins to check isolation policies


@BOTH
def test_what_the_admin_api_answers(cluster: PulsarCluster, used: Bundles) -> None:
    admin, bundle = used.admin, used.all[0]
    other = used.others(bundle)[0]
    for missing, destination, error, status in (
        (bundle, "127.0.41.9:1", Refused, 409),
        (f"{used.namespace}/0x00000000_0x12345678", other, NotFound, 412),
        ("t/none/0x00000000_0xffffffff", other, NotFound, 404),
    ):
        with pytest.raises(error, match=f"answered {status}"):
            admin.unload(missing, destination)
    with pytest.raises(NotFound, match="answered 404"):
        admin.ranges("t/none")
    assert admin.brokers() == tuple(sorted(cluster.brokers))
    assert (admin.isolation_policies(), admin.failure_domains()) == ({}, {})
    assert admin.anti_affinity(used.namespace) is None


@BOTH
def test_a_misspelt_cluster_name_is_refused_and_lifts_no_policy(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    wrong = replace(cluster.settings(tmp_path), cluster="typo")
    with isolation(cluster, used.namespace, [cluster.brokers[0]]):
        told = "Cluster typo does"
        with closing(PulsarAdmin(wrong)) as admin, pytest.raises(NotFound, match=told):
            admin.isolation_policies()
        for command in (["collect", "--once"], ["execute", "--once", "--apply"]):
            answer = rebalancer(*command, *words(wrong), *around(control))
            assert answer.code == exit_codes.SETTINGS
            assert "pulsar.cluster: is typo, but" in answer.words
            assert "belongs to c (clusterName" in answer.words
    (finding,) = check_cluster(load(), wrong, shadow=False)
    assert (finding.status, "belongs to c (clusterName" in finding.text) == ("fail", True)


@BOTH
def test_collect_sees_brokers_and_bundles_and_publishes_legal_records(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    settings = cluster.settings(tmp_path)
    with collecting(settings, control) as collector, traffic(used):
        eventually(
            lambda: bool(collector.step().done) and set(used.all) <= reported(control),
            120,
            "not every bundle was reported",
        )
        eventually(lambda: not passed(collector).missing, 120, "a broker keeps being missing")

    found = records(control)
    assert {type(record) for record in found} >= {LoadReport, Policies, Sweep}
    *_, sweep = (record for record in found if isinstance(record, Sweep))
    assert sweep.brokers == tuple(sorted(cluster.brokers))
    policies, *_ = (record for record in found if isinstance(record, Policies))
    snapshot = read_policies(policies.snapshot)
    assert {facts.version for facts in snapshot.brokers.values()} == {cluster.version}
    assert set(snapshot.brokers) == set(cluster.brokers)


@BOTH
def test_one_look_is_a_table_or_json(
    cluster: PulsarCluster, used: Bundles, tmp_path: Path, kind: str
) -> None:
    settings = words(cluster.settings(tmp_path))
    with traffic(used):
        seen = rebalancer("collect", "--once", "--json", *settings)
        table = rebalancer("collect", "--once", *settings)

    assert seen.json["load_manager"] == ("extensible" if kind.startswith("guarded") else "modular")
    shown = seen.json["brokers"]
    assert [one["broker"] for one in shown] == sorted(cluster.brokers)
    assert all(one["missing"] is None and one["bundles"] > 0 for one in shown)
    assert all(broker in table.out for broker in cluster.brokers)


def test_a_move_shows_in_what_extensible_brokers_own(
    guarded_pulsar: PulsarCluster, control: Control, tmp_path: Path
) -> None:
    with (
        bundles(guarded_pulsar, f"t/{tmp_path.name}") as used,
        collecting(guarded_pulsar.settings(tmp_path), control) as collector,
        traffic(used),
    ):
        eventually(lambda: not passed(collector).missing, 120, "a broker keeps being missing")
        bundle, source = used.all[0], used.owner(used.all[0])
        destination = used.others(bundle)[0]
        eventually(lambda: not passed(collector).owned, 120, "notes go on although nothing changes")

        used.move(bundle, destination)

        seen: set[str] = set()

        def both() -> bool:
            seen.update(report.broker for report in passed(collector).owned)
            return seen >= {source, destination}

        eventually(both, 120, "nobody has noted the move")


@BOTH
def test_shadow_sees_real_moves_and_pairs_them_with_our_commands(
    cluster: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    first, second, third = used.all[:3]
    settings, before = cluster.settings(tmp_path), Control(tmp_path / "before")
    with traffic(used), ExitStack() as ended:
        owners = {bundle: used.owner(bundle) for bundle in used.all}
        # Reports are older than that: a log that began now would show how `traffic` has placed the
        # bundles.
        with collecting(settings, before) as early:
            all_are_seen_at_home(early, before, used, owners)
        collector = ended.enter_context(collecting(settings, control))
        all_are_seen_at_home(collector, control, used, owners)
        for bundle in (first, second):
            used.move_away(bundle)
        control.send(
            command(first, owners[first], used.owner(first)),
            command(third, owners[third], used.others(third)[0]),
        )
        eventually(
            lambda: {first, second} <= {moved.bundle for moved in told(collector, control)},
            180,
            "the moves were not seen",
            0.5,
        )
    control.write("rounds", [])
    seen = rebalancer("shadow", "--json", *around(control)).json

    found = {one["bundle"]: one for one in seen["bundles"]}
    verdicts = [found[bundle]["verdict"] for bundle in (first, second, third)]
    assert verdicts == ["both", "only-pulsar", "only-ours"]
    assert found[first]["same_destination"]


def all_are_seen_at_home(
    collector: Collector, control: Control, used: Bundles, owners: Mapping[str, str]
) -> None:
    """Waits until each bundle is reported by its owner alone."""
    alone = {bundle: {owner} for bundle, owner in owners.items()}
    otherwise = "not every bundle is reported by its owner alone"
    eventually(lambda: named(collector, control, used) == alone, 180, otherwise, 0.5)


def told(collector: Collector, control: Control) -> list[Moved]:
    """The moves that the telemetry so far shows, after one more pass."""
    passed(collector)
    watch = OwnershipWatch()
    return [moved for record in control.read("telemetry") for moved in watch.feed(record)]


def named(collector: Collector, control: Control, used: Bundles) -> dict[str, set[str]]:
    """Bundle → the brokers whose newest report or note names it, after one more pass."""
    passed(collector)
    newest: dict[tuple[str, str], set[str]] = {}
    for line in control.read("telemetry"):
        record, tree = decode(line, b""), json.loads(line)
        if isinstance(record, LoadReport) and record.bundles is not None:
            newest[tree["kind"], record.broker] = set(record.bundles.names)
        elif tree.get("note") == "owned-bundles":
            newest[tree["kind"], tree["broker"]] = set(tree["report"])
    return {
        bundle: {broker for (_, broker), names in newest.items() if bundle in names}
        for bundle in used.all
    }


@contextmanager
def collecting(settings: PulsarSettings, control: Control) -> Iterator[Collector]:
    """A collector of this cluster, as the command would start it."""
    with (
        opened(settings, CollectorSettings(), Event().wait) as source,
        closing(open_publisher(topic_of(control.uri("telemetry")))) as publisher,
    ):
        yield Collector(source, storing(publisher))


def passed(collector: Collector) -> Pass:
    done = collector.step().done
    assert done is not None
    return done


def records(control: Control) -> list[object]:
    return [decode(record, b"") for record in control.read("telemetry")]


def reported(control: Control) -> set[str]:
    tables = [one.bundles for one in records(control) if isinstance(one, LoadReport)]
    return {name for table in tables if table is not None for name in table.names}


@contextmanager
def isolation(cluster: PulsarCluster, namespace: str, allowed: list[str]) -> Iterator[None]:
    """A policy that keeps a namespace on the hosts of these brokers; Pulsar itself moves nothing
    because of it.
    """
    hosts = [broker.rpartition(":")[0].replace(".", r"\.") for broker in allowed]
    own = {"namespaces": [namespace], "primary": hosts, "unload_scope": "none"}
    path = "clusters/c/namespaceIsolationPolicies/mine"
    cluster.post(path, {**POLICY, **own})
    try:
        yield
    finally:
        cluster.delete(path)
