"""The executor: what it calls, what it leaves alone, its outcomes, and what a move costs."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import pytest

from sinks.executor.executor import Stopped
from sinks.executor.journal import Received
from sinks.executor.move_gate_and_holds import RateLimiter
from sinks.executor.pause_meter import BundleUse, CostMeter, WaveFigures
from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import Secret
from sinks.wire.record_decoding import Position, decode
from sinks.wire.record_encoding import encode_command
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command, OutcomeReport
from strategies.cluster.move_cost import NOT_MEASURED
from strategies.executor.admission import AdmissionRules
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from tests.control_topic import now_ms
from tests.pulsar_fake.model import Applied, Request
from tests.pulsar_fake.server import Fault, answered
from tests.unit.executor_lives import APPLY, FOUR, ONE, THREE, TWO
from tests.world.placement import policy
from tests.world.services import Scene, topic_names
from tools.waiting import eventually

KEY, STRANGE_KEY = SigningKey(Secret(b"k" * 32)), SigningKey(Secret(b"x" * 32))
HOUR_MS = 3_600_000


def test_a_transfer_is_carried_out_told_and_fed_back(scene: Scene) -> None:
    move = scene.send_move()
    assert scene.run() == ["applied"]
    (outcome,) = scene.outcomes
    assert (outcome.command_id, outcome.bundle) == (move.id, ONE)
    assert (outcome.owner_before, outcome.owner_after) == (scene.one, scene.two)
    assert scene.owners[ONE] == scene.two
    assert scene.applied == [Applied("unload", ONE, scene.one, scene.two)]
    (fed_back,) = [decode(value, b"") for value in scene.control.read("telemetry")]
    assert isinstance(fed_back, OutcomeReport)
    assert fed_back.outcome == outcome


def test_a_split_is_carried_out_where_the_command_says(scene: Scene) -> None:
    at, algorithm = (0x10000000,), "specified_positions_divide"
    scene.cluster.figures[next(iter(topic_names(ONE)))] = {"msgRateIn": 30.0}
    scene.send(scene.release(action="split", algorithm=algorithm, boundaries=at))
    assert scene.run(measure_ms=1) == ["applied"]
    halves = ["t/ns/0x00000000_0x10000000", "t/ns/0x10000000_0x40000000"]
    assert sorted(scene.owners)[:2] == halves
    assert scene.outcomes[0].cost.topics is None, "only moves are measured"


def test_a_dry_run_calls_nothing_and_the_command_may_come_again_for_real(scene: Scene) -> None:
    moves = scene.move(), scene.move(TWO, scene.three, source=scene.two)
    scene.send(*moves)
    assert scene.run(ExecutorConfig("c")) == ["dry-run dry-run", "refused moved-on"]
    assert f"would transfer {ONE} from {scene.one} to {scene.two}" in str(scene.outcomes[0].reason)
    assert scene.puts == 0
    scene.send(moves[0])
    assert scene.run() == ["applied"]


def test_the_same_command_twice_is_applied_once(scene: Scene) -> None:
    move = scene.send_move()
    scene.send(move)
    assert scene.run() == ["applied", "already-done replayed"]
    scene.owners[ONE] = scene.one
    scene.send(move)
    assert scene.run() == ["already-done replayed"]
    assert len(scene.applied) == 1


def test_several_commands_have_their_outcomes_in_their_order(scene: Scene) -> None:
    moves = [
        scene.move(ONE),
        scene.move(TWO, scene.three),
        scene.move(ONE, scene.three, source=scene.two),
        scene.move(THREE, source=scene.three),
        scene.release(FOUR),
    ]
    scene.send(*moves)
    assert scene.run() == ["applied", "applied", "applied", "refused moved-on", "applied"]
    assert [outcome.command_id for outcome in scene.outcomes] == [move.id for move in moves]
    assert scene.owners[ONE] == scene.three
    assert scene.outcomes[-1].owner_after == scene.owners[FOUR] != scene.one, "Pulsar places it"


def test_what_is_refused_is_explained_and_never_called(scene: Scene) -> None:
    whole = "0x00000000_0xffffffff"
    scene.send(
        scene.move(epoch=2),
        scene.move(TWO),
        scene.move(TWO, epoch=2, expires_at_ms=now_ms() - 1),
        # The modular broker would close the bundle for nothing.
        scene.move(TWO, scene.one, source=scene.two, epoch=2),
        scene.move(TWO, "127.0.0.1:1", epoch=2),
        scene.move(f"t/none/{whole}", epoch=2),
        scene.move("t/ns/0x00000000_0x80000000", epoch=2),
        scene.move(f"pulsar/{scene.one}/{whole}", epoch=2),
        scene.move(f"u/ns/{whole}", epoch=2),
        scene.move(TWO, epoch=2, action="throttle"),
        scene.move(THREE, cluster="other"),
    )

    assert scene.run(replace(APPLY, rules=AdmissionRules(allow=("t/*",)))) == [
        "applied",
        "refused older-epoch",
        "expired expired",
        "already-done at-destination",
        "refused destination-gone",
        "refused no-such-bundle",
        "refused no-such-bundle",
        "refused system-bundle",
        "refused namespace-not-allowed",
        "refused advice",
    ], "commands of other clusters are left to others"
    assert len(scene.applied) == 1


@pytest.mark.parametrize(
    ("release", "runs", "primary", "expected"),
    [
        (None, "4.2.4", "host", "refused isolation-reserved"),
        # A policy that names a broker by its id holds from Pulsar 5.0 on.
        (None, "4.2.4", "id", "applied"),
        (None, "5.0.1", "id", "refused isolation-reserved"),
        ("4.2", "5.0.1", "id", "applied"),
        ("5.0", "4.2.4", "id", "refused isolation-reserved"),
    ],
)
def test_a_destination_that_isolation_forbids_is_refused(
    scene: Scene, release: PulsarRelease | None, runs: str, primary: str, expected: str
) -> None:
    named = r"127\.0\.0\.1" if primary == "host" else re.escape(scene.two)
    scene.cluster.version = runs
    scene.cluster.policies["mine"] = policy("mine", ["other/.*"], [named])
    scene.send_move()
    assert scene.run(replace(APPLY, release=release)) == [expected]
    assert scene.puts == 0 or expected == "applied"


def test_only_commands_with_our_signature_are_believed(scene: Scene) -> None:
    forged = scene.move(epoch=99)
    scene.send(forged)
    scene.send(forged, key=STRANGE_KEY)
    scene.send(scene.move(TWO), key=KEY)
    believed = scene.run(replace(APPLY, key=KEY))
    assert believed == ["refused unsigned", "refused wrong-signature", "applied"], (
        "what nobody believes does not raise the epoch either"
    )


def test_a_newer_epoch_is_known_from_rounds_and_across_restarts(scene: Scene) -> None:
    other = b'{"v":1,"cluster":"other","epoch":9}'
    scene.control.write("rounds", [b"torn", other])
    for epoch in (7, 2**63):
        scene.see_epoch(epoch)
    scene.run()
    scene.send(scene.move(epoch=6), scene.move(epoch=7))
    assert scene.run() == ["refused older-epoch", "applied"]


def test_with_a_key_only_signed_rounds_raise_the_epoch(scene: Scene) -> None:
    """Whoever may write to the rounds topic cannot stop an executor; a newer job can."""
    signed = replace(APPLY, key=KEY)
    scene.see_epoch(99)
    scene.see_epoch(98, STRANGE_KEY)
    scene.send(scene.move(epoch=6), key=KEY)
    assert scene.run(signed) == ["applied"]
    scene.see_epoch(7, KEY)
    scene.send(scene.move(TWO, epoch=6), key=KEY)
    assert scene.run(signed) == ["refused older-epoch"]


def test_what_is_no_command_becomes_a_rejected_record(scene: Scene) -> None:
    bad = scene.move("t/ns/0x0_0x1"), scene.move(ONE, "b c:1")
    scene.control.write("commands", [b"{", *map(encode_command, bad)])
    scene.send_move()
    assert scene.run() == ["applied"]
    assert scene.rejected == ["not-json", "bundle-name", "broker-id"]


def test_the_pause_file_is_honoured_at_once(scene: Scene) -> None:
    """Somebody pauses while the first command is being carried out; the second has not begun."""
    config = replace(scene.pausing(), at_once=1)
    scene.send_moves(ONE, TWO, THREE)
    assert scene.run(config) == ["applied", "refused paused", "refused paused"]
    assert "pause file" in scene.reason
    scene.control.folder.joinpath("pause").unlink()
    scene.send_move(TWO)
    assert scene.run(config) == ["applied"]


def test_a_pause_is_seen_even_after_the_cluster_was_looked_at(scene: Scene) -> None:
    scene.send_move()
    assert scene.run(scene.pausing(at=lambda _: True)) == ["refused paused"]
    assert scene.puts == 0


def test_a_command_whose_executor_stops_while_it_waits_is_left_to_the_next(scene: Scene) -> None:
    scene.send_moves(ONE, TWO)
    with pytest.raises(Stopped):
        scene.run(replace(APPLY, at_once=1), per_minute=1)
    assert scene.news() == ["applied"]
    assert scene.run() == ["applied"]
    assert len(scene.applied) == 2


@pytest.mark.heavy
def test_a_command_that_waited_for_its_turn_is_judged_by_the_newest_epoch(scene: Scene) -> None:
    """The first round of a newer job comes while the second command waits."""
    scene.send_moves(ONE, TWO)
    now = [0.0]

    def rounds_are_read() -> bool:
        files = (scene.control.folder / "state").glob("executor-*.json")
        positions = [json.loads(file.read_text("utf-8")) for file in files]
        return any(position["topic"] == scene.control.uri("rounds") for position in positions)

    def wait(seconds: float) -> bool:
        scene.see_epoch(7)
        eventually(rounds_are_read, 60, "nobody reads the rounds while a command waits")
        now[0] += seconds
        return False

    limiter = RateLimiter(1, wait, lambda: now[0])
    verdicts = scene.run(replace(APPLY, at_once=1), limiter=limiter)
    assert verdicts == ["applied", "refused older-epoch"]


class Turn(RateLimiter):
    """Something happens before the command's turn comes."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__(1, lambda _: False)
        self._happens = happens

    def acquire(self) -> bool:
        self._happens()
        return True


@pytest.mark.parametrize(
    ("went", "expected"),
    [(1, "already-done at-destination"), (2, "refused moved-on"), (None, "refused not-owned")],
)
def test_a_bundle_that_has_moved_before_its_turn_is_left_alone(
    scene: Scene, went: int | None, expected: str
) -> None:
    scene.cluster.lookups = False
    owner = None if went is None else scene.cluster.brokers[went]
    scene.send_move()
    assert scene.run(limiter=Turn(lambda: scene.owners.update({ONE: owner}))) == [expected]
    assert scene.outcomes[0].owner_after == owner
    assert scene.puts == 0


@pytest.mark.parametrize(
    ("fault", "code"), [(answered(503), "cluster-error"), (Fault(drop=True), "cluster-silent")]
)
def test_a_cluster_that_falls_silent_before_a_turn_gets_no_call(
    scene: Scene, fault: Fault, code: str
) -> None:
    scene.send_move()
    assert scene.run(limiter=Turn(lambda: scene.pulsar.fail(lambda _: True, fault))) == [
        f"failed {code}"
    ]
    assert scene.puts == 0


def remembered(scene: Scene, commands: Sequence[Command]) -> int:
    with scene.journal() as journal:
        found = [journal.earlier(Received(one.id, Position("", 0, 0), b"")) for one in commands]
    return sum(verdict is not None for _, verdict in found)


def aged(scene: Scene, bundle: str, age_ms: int, ttl_ms: int) -> Command:
    issued_ms = now_ms() - age_ms
    return scene.move(bundle, issued_at_ms=issued_ms, expires_at_ms=issued_ms + ttl_ms)


def test_a_start_forgets_what_expired_more_than_a_week_ago(scene: Scene) -> None:
    commands = []
    for bundle, days in ((ONE, 6), (TWO, 8)):
        commands.append(aged(scene, bundle, days * 24 * HOUR_MS, 60_000))
        scene.send(commands[-1])
        scene.run(later_ms=-days * 24 * HOUR_MS)
    scene.run()
    assert [remembered(scene, [one]) for one in commands] == [1, 0]


@pytest.mark.heavy
def test_an_executor_forgets_as_it_goes_and_applies_nothing_twice(scene: Scene) -> None:
    long_ago = [aged(scene, ONE, 3 * HOUR_MS, HOUR_MS) for _ in range(30)]
    scene.send(*long_ago)
    scene.run(later_ms=-3 * HOUR_MS + 60_000)
    scene.send_move(TWO)
    scene.run()
    assert remembered(scene, long_ago) == 0
    scene.send(long_ago[0])
    assert scene.run()[-1] == "expired expired"
    assert len(scene.applied) == 2


def test_a_clock_that_is_ahead_makes_no_executor_forget(scene: Scene) -> None:
    early = scene.move()
    scene.send(early)
    assert scene.run() == ["applied"]
    scene.send_move(TWO)
    assert scene.run(later_ms=48 * HOUR_MS)[-1] == "expired expired"
    assert remembered(scene, [early]) == 1


def asks_for_loaded_topics(request: Request) -> bool:
    return request.path == "/admin/v2/broker-stats/topics"


@pytest.mark.parametrize("status", [200, 500])
def test_a_wave_is_measured_by_one_call_to_each_broker_and_lists_no_namespace(
    scene: Scene, status: int
) -> None:
    """Also a call that fails, for which each move would wait."""
    topics = [next(topic_names(bundle)) for bundle in (ONE, TWO, THREE)]
    scene.cluster.topics["t/ns"] = topics
    scene.cluster.figures.update((topic, {"msgRateIn": 0.0}) for topic in topics)
    asked = []
    if status != 200:
        scene.pulsar.fail(asks_for_loaded_topics, answered(status))

    def send_another() -> None:
        asked.append(scene.calls(asks_for_loaded_topics))
        scene.send_moves(FOUR)

    scene.work_off(lambda: scene.send_moves(ONE, TWO, THREE), send_another, measure_ms=1)
    assert [*asked, scene.calls(asks_for_loaded_topics)] == [1, 2], "topics may be new later"
    known = [1, 1, 1, None] if status == 200 else [None] * 4
    assert [one.cost.topics for one in scene.outcomes] == known
    lists = "/admin/v2/persistent/t/ns", "/admin/v2/namespaces/t/ns/topics"
    assert scene.calls(lambda request: request.path in lists) == 0


@pytest.mark.parametrize(
    ("figures", "has_clients"),
    [
        ({"publishers": [{"producerId": 1}]}, True),
        ({"producerCount": 1, "publishers": []}, True),
        ({"subscriptions": {"s": {"consumers": [{"consumerName": "c"}]}}}, True),
        ({"subscriptions": {"s": {"consumers": []}}, "producerCount": 0}, False),
        ({}, False),
    ],
)
def test_a_bundle_has_clients_if_one_of_its_topics_has(
    scene: Scene, figures: dict[str, object], has_clients: bool
) -> None:
    idle, used = islice(topic_names(ONE), 2)
    scene.cluster.figures.update({idle: {}, used: {"msgRateIn": 0.5, **figures}})
    with scene.client() as admin:
        use = WaveFigures(admin).of_bundle(ONE, scene.one)
    assert (use.topics, use.had_clients, use.busiest) == (2, has_clients, None)


def test_what_a_move_costs_is_in_its_outcome(scene: Scene) -> None:
    busy, idle = islice(topic_names(ONE), 2)
    scene.cluster.figures[busy] = {"publishers": [{}], "msgRateIn": 30.0, "msgInCounter": 17}
    scene.cluster.figures[idle] = {"publishers": [], "msgRateIn": 0.0}
    scene.send(scene.move(), scene.move(TWO, scene.one, source=scene.two))
    told = scene.run(replace(APPLY, at_once=1), measure_ms=3_000)
    assert told == ["applied", "already-done at-destination"]
    moved, other = scene.outcomes
    cost = moved.cost
    assert (cost.topics, cost.unloads, cost.manager) == (2, 1, scene.cluster.manager)
    assert cost.unowned_ms is not None
    assert cost.first_message_ms is not None
    assert other.cost == NOT_MEASURED


def test_the_first_message_is_timed_from_the_release_of_the_bundle(scene: Scene) -> None:
    busy = next(iter(topic_names(ONE)))
    scene.cluster.figures[busy] = {"msgInCounter": 17}
    with scene.client() as admin:
        meter = CostMeter(admin, 9_000, lambda _: False, lambda: 8.5)
        assert meter.first_message_ms(BundleUse(busiest=busy), scene.one, 2.0) == 6_500
