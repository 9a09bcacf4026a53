"""What the process of a roll sees of brokers, and of plans that wait for a person."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from pulsar_rebalancer.cli.roll.roll_process import ClusterObserver, WaitingPlans
from pulsar_rebalancer.settings.merge_sources import Settings, load
from sinks.wire.record_encoding import encode_outcome
from strategies.cluster.intent_records_and_states import RollPhase
from strategies.errors import Unauthorized
from tests.control_topic import TOPICS, Control, command, outcome
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar, Fault, answered
from tests.world.services import reads_metadata

BUNDLE, OTHER = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"
SPLIT = "t/ns/0x00000000_0xffffffff"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(lookups=False), 3) as fake:
        fake.cluster.owners = {BUNDLE: fake.cluster.brokers[0], OTHER: fake.cluster.brokers[1]}
        yield fake


@pytest.fixture
def settings(pulsar: FakePulsar, control: Control) -> Settings:
    given = control.settings(pulsar__admin_urls=pulsar.admin_urls)
    return load(flags=[f"{name}={value}" for name, value in given.items()])


@pytest.fixture
def observer(settings: Settings) -> Iterator[ClusterObserver]:
    with closing(ClusterObserver(settings, "c")) as found:
        yield found


def phases(pulsar: FakePulsar, *given: RollPhase) -> dict[str, RollPhase]:
    return dict(zip(pulsar.cluster.brokers, given, strict=False))


def test_a_cluster_in_good_health(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    brokers = tuple(sorted(pulsar.cluster.brokers))
    seen = observer.look(phases(pulsar, "waiting", "waiting", "waiting"))
    assert (seen.live, seen.leader) == (brokers, pulsar.cluster.brokers[0])
    assert sorted(seen.reading) == [*brokers]
    assert (seen.frozen, seen.readable, seen.obstacle, [*seen.unowned]) == ((), True, None, [])
    assert seen.started_ms == {}, "nobody is about to be restarted"


def test_a_broker_that_goes_and_comes_back(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    one, *others = pulsar.cluster.brokers
    at = phases(pulsar, "restarting", "waiting", "restarted")
    pulsar.cluster.started_s = {one: 3.0}
    assert observer.look(at).started_ms == {one: 3_000}
    pulsar.cluster.brokers.remove(one)
    gone = observer.look(at)
    assert (gone.live, one in gone.reading, gone.started_ms) == (tuple(sorted(others)), False, {})
    pulsar.cluster.brokers.append(one)
    pulsar.cluster.started_s = {one: 25.0}
    back = observer.look(at)
    assert (one in back.reading, back.started_ms) == (True, {one: 25_000})


@pytest.mark.parametrize("drops", [True, False])
def test_a_broker_that_restarts_and_reads_nothing_yet_is_not_frozen(
    pulsar: FakePulsar, observer: ClusterObserver, *, drops: bool
) -> None:
    one, *_ = pulsar.cluster.brokers
    pulsar.fail(
        lambda request: request.broker == one and (drops or reads_metadata(request)),
        Fault(drop=True) if drops else answered(500, b"starting"),
    )
    seen = observer.look(phases(pulsar, "restarting", "waiting", "waiting"))
    assert one in (seen.live or ())
    assert (seen.frozen, seen.readable, one in seen.reading) == ((), True, False)


def test_a_cluster_that_does_not_answer(pulsar: FakePulsar, observer: ClusterObserver) -> None:
    at = phases(pulsar, "drained", "waiting", "waiting")
    pulsar.fail("", Fault(drop=True))
    blind = observer.look(at)
    assert (blind.live, blind.leader, blind.readable) == (None, None, False)
    pulsar.heal()
    assert observer.look(at).readable


def test_brokers_whose_metadata_does_not_answer(
    pulsar: FakePulsar, observer: ClusterObserver
) -> None:
    pulsar.fail(reads_metadata, Fault(drop=True))
    seen = observer.look(phases(pulsar, "drained", "waiting", "waiting"))
    assert seen.live == tuple(sorted(pulsar.cluster.brokers))
    assert (seen.readable, seen.reading) == (False, ())


def test_a_token_that_is_refused_ends_the_process(
    pulsar: FakePulsar, observer: ClusterObserver
) -> None:
    pulsar.fail("", answered(401, b"no"))
    with pytest.raises(Unauthorized):
        observer.look({})


def test_a_bundle_of_the_roll_without_an_owner(
    pulsar: FakePulsar, observer: ClusterObserver, control: Control
) -> None:
    one, two, three = pulsar.cluster.brokers
    at: dict[str, RollPhase] = {one: "draining", two: "waiting"}
    applied = outcome(command(BUNDLE, one, two), "applied", "unowned: no broker has owned it")
    lost = replace(applied, owner_after=None)
    elsewhere = replace(lost, bundle=OTHER, owner_before=three)
    quiet = replace(lost, bundle=OTHER, reason="not-looked-up: no client looks for it")
    split = replace(lost, bundle=SPLIT)
    control.write("outcomes", [encode_outcome(one) for one in (lost, elsewhere, quiet, split)])
    # Later losses are not of this roll's moves.
    for owner, unowned in ((None, [BUNDLE]), (None, [BUNDLE]), (two, []), (None, [])):
        pulsar.cluster.owners[BUNDLE] = owner
        assert [*observer.look(at).unowned] == unowned


@pytest.mark.heavy
def test_a_frozen_broker(pulsar: FakePulsar, settings: Settings) -> None:
    """It answers, and never finishes a read of metadata, while others do."""
    frozen, *_ = pulsar.cluster.brokers
    pulsar.fail(lambda one: reads_metadata(one) and one.broker == frozen, Fault(delay_s=8))
    with closing(ClusterObserver(settings, "c", probe_ms=2_000)) as observer:
        seen = observer.look(phases(pulsar, "waiting", "waiting", "waiting"))
    assert (seen.frozen, seen.readable, frozen in seen.reading) == ((frozen,), True, False)


@pytest.mark.parametrize(
    ("approval", "cluster", "minutes", "is_found"),
    [
        ("required", "c", 0, True),
        ("required", "c", 5, True),
        # The life of a command, and how far clocks may be apart: topics may go back for months.
        ("required", "c", 8, False),
        ("required", "other", 0, False),
        ("none", "c", 0, False),
    ],
)
def test_a_plan_that_waits_for_approval_is_named(
    control: Control, approval: str, cluster: str, minutes: int, is_found: bool
) -> None:
    flags = [f"topics.{name}={control.uri(name)}" for name in TOPICS]
    flags += [f"executor.approval={approval}", "round.command_ttl_ms=60000"]
    control.send(command(BUNDLE, "a:1", "b:1"))
    (segment,) = (control.folder / "commands").glob("*.jsonl")
    at = time.time() - 60 * minutes
    os.utime(segment, (at, at))
    found = WaitingPlans(load(flags=flags), cluster).obstacle()
    says = "waits for approval: `rebalancer plans approve 1.1-"
    assert (found is not None and says in found) is is_found
