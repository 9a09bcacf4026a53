"""What the process of a roll sees of brokers that restart, freeze, or do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.roll.observe import ClusterObserver
from pulsar_rebalancer.settings.load import load
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.topics.connections import Connections
from sinks.wire.codec import encode_outcome
from strategies.cluster.intent_contract import RollPhase
from strategies.errors import Unauthorized
from tests.control_topic import Control, command, now_ms, outcome
from tests.pulsar_fake.model import Answer, Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault

BUNDLE, OTHER = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(lookups=False), 3) as fake:
        fake.cluster.owners = {BUNDLE: fake.cluster.brokers[0], OTHER: fake.cluster.brokers[1]}
        yield fake


@pytest.fixture
def connections(pulsar: FakePulsar, control: Control) -> Connections:
    flags = [
        f"pulsar.admin_urls={pulsar.admin_urls}",
        "pulsar.cluster=c",
        f"topics.outcomes={control.uri('outcomes')}",
    ]
    return load(flags=flags).connections


@pytest.fixture
def observer(connections: Connections) -> Iterator[ClusterObserver]:
    known = KnownBrokers(connections.pulsar)
    with closing(ClusterObserver(connections, known, lambda _: False, 0)) as found:
        yield found


def phases(pulsar: FakePulsar, *given: RollPhase) -> dict[str, RollPhase]:
    return dict(zip(pulsar.cluster.brokers, given, strict=False))


def test_a_cluster_in_good_health(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    brokers = tuple(sorted(pulsar.cluster.brokers))
    seen = observer.look(
        5, phases(pulsar, "waiting", "waiting", "waiting"), brokers, "a plan waits"
    )
    assert (seen.live, seen.leader) == (brokers, pulsar.cluster.brokers[0])
    assert sorted(seen.reading) == [*brokers]
    assert (seen.frozen, seen.unreadable_ms, seen.obstacle) == ((), None, "a plan waits")
    assert (seen.missing_ms, seen.gone_ms, seen.unowned_ms) == ({}, {}, {})
    assert seen.started_ms == {}, "nobody is about to be restarted"


def test_a_broker_that_goes_and_comes_back(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    one, *_ = brokers = tuple(pulsar.cluster.brokers)
    at = phases(pulsar, "restarting", "waiting", "restarted")
    pulsar.cluster.started_s = {one: 3.0}
    assert observer.look(10, at, brokers).started_ms == {one: 3_000}
    pulsar.cluster.brokers.remove(one)
    for now in (20, 30):
        gone = observer.look(now, at, brokers)
        assert (gone.missing_ms, gone.gone_ms) == ({one: 20}, {one: now})
        assert (one in gone.reading, gone.started_ms) == (False, {})
    pulsar.cluster.brokers.append(one)
    pulsar.cluster.started_s = {one: 25.0}
    back = observer.look(40, at, brokers)
    assert (back.missing_ms, back.gone_ms, one in back.reading) == ({}, {one: 30}, True)
    assert back.started_ms == {one: 25_000}


def test_a_broker_that_restarts_and_reads_nothing_yet_is_not_frozen(
    pulsar: FakePulsar, observer: ClusterObserver
) -> None:
    one, *_ = brokers = tuple(pulsar.cluster.brokers)
    pulsar.faults = lambda request: (
        Fault(instead=Answer(500, b"starting"))
        if request.broker == one and "tenants" in request.path
        else None
    )
    seen = observer.look(10, phases(pulsar, "restarting", "waiting", "waiting"), brokers)
    # An answer with an error is an answer: only one that never comes is none.
    assert (seen.frozen, seen.unreadable_ms) == ((), None)
    pulsar.faults = lambda request: Fault(drop=True) if request.broker == one else None
    seen = observer.look(20, phases(pulsar, "restarting", "waiting", "waiting"), brokers)
    assert (one in seen.reading, one in (seen.live or ())) == (False, True)
    assert (seen.frozen, seen.unreadable_ms) == ((), None)


def test_a_cluster_that_does_not_answer(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    brokers = tuple(pulsar.cluster.brokers)
    at = phases(pulsar, "drained", "waiting", "waiting")
    observer.look(10, at, brokers)
    pulsar.faults = lambda _: Fault(drop=True)
    for now in (20, 30):
        blind = observer.look(now, at, brokers)
        assert (blind.live, blind.leader, blind.unreadable_ms) == (None, None, 20)
        assert (blind.missing_ms, blind.gone_ms) == ({}, {}), "what is not seen is no evidence"
    pulsar.faults = lambda _: None
    assert observer.look(40, at, brokers).unreadable_ms is None


def test_brokers_whose_metadata_does_not_answer(
    pulsar: FakePulsar, observer: ClusterObserver
) -> None:
    brokers = tuple(pulsar.cluster.brokers)
    pulsar.faults = lambda request: (
        Fault(drop=True) if "tenants" in request.path or "racks" in request.path else None
    )
    seen = observer.look(20, phases(pulsar, "drained", "waiting", "waiting"), brokers)
    assert (seen.live, seen.unreadable_ms, seen.reading) == (tuple(sorted(brokers)), 20, ())


def test_a_token_that_is_refused_ends_the_process(
    pulsar: FakePulsar, observer: ClusterObserver
) -> None:
    pulsar.faults = lambda _: Fault(instead=Answer(401, b"no"))
    with pytest.raises(Unauthorized):
        observer.look(20, {}, ())


def test_a_bundle_of_the_roll_without_an_owner(
    pulsar: FakePulsar, observer: ClusterObserver, control: Control
) -> None:
    one, two, three = brokers = tuple(pulsar.cluster.brokers)
    at: dict[str, RollPhase] = {one: "draining", two: "waiting"}
    lost = replace(
        outcome(command(BUNDLE, one, two), "applied", "unowned: no broker has owned it"),
        owner_after=None,
        ts=7,
    )
    elsewhere = replace(lost, bundle=OTHER, owner_before=three)
    quiet = replace(lost, bundle=OTHER, reason="not-looked-up: no client looks for it")
    control.write("outcomes", [encode_outcome(item) for item in (lost, elsewhere, quiet)])
    pulsar.cluster.owners[BUNDLE] = None
    assert observer.look(10, at, brokers).unowned_ms == {BUNDLE: 10}, (
        "the executor's clock may differ"
    )
    assert observer.look(20, at, brokers).unowned_ms == {BUNDLE: 10}
    pulsar.cluster.owners[BUNDLE] = two
    assert observer.look(30, at, brokers).unowned_ms == {}
    pulsar.cluster.owners[BUNDLE] = None
    assert observer.look(40, at, brokers).unowned_ms == {}, (
        "later losses are not of this roll's moves"
    )


def test_a_lost_bundle_that_was_split_is_none(
    pulsar: FakePulsar, observer: ClusterObserver, control: Control
) -> None:
    one, two, _ = brokers = tuple(pulsar.cluster.brokers)
    lost = outcome(command("t/ns/0x00000000_0xffffffff", one, two), "applied", "unowned: nobody")
    control.write("outcomes", [encode_outcome(replace(lost, owner_after=None, ts=now_ms()))])
    assert observer.look(10, {one: "draining"}, brokers).unowned_ms == {}


@pytest.mark.heavy
def test_a_frozen_broker(pulsar: FakePulsar, connections: Connections, tmp_path: Path) -> None:
    """It answers, and never finishes a read of metadata, while others do."""
    one, *_ = brokers = tuple(pulsar.cluster.brokers)

    def frozen(request: Request) -> Fault | None:
        reads = "tenants" in request.path or "racks" in request.path
        return Fault(delay_s=8) if reads and request.broker == one else None

    pulsar.faults = frozen
    observer = ClusterObserver(
        connections, KnownBrokers(connections.pulsar), lambda _: False, 0, probe_ms=2_000
    )
    with closing(observer):
        seen = observer.look(10, phases(pulsar, "waiting", "waiting", "waiting"), brokers)
    assert (seen.frozen, seen.unreadable_ms) == ((one,), None)
    assert one not in seen.reading
