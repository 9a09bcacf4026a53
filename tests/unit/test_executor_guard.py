"""In a cluster in trouble no move begins, and each command says why."""

import random
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sinks.executor.journal import MoveJournal
from sinks.executor.move_gate_and_holds import MoveGate, UnownedBundles
from strategies.executor.gate_and_breaker import BreakerRules, GateRules
from tests.pulsar_fake.model import Request
from tests.pulsar_fake.server import FakePulsar, Fault, answered, is_put
from tests.unit.executor_lives import BUNDLES, FOUR, ONE, THREE, TWO, executor
from tests.world.services import (
    Scene,
    guarded,
    is_lookup,
    lists_brokers,
    reads_metadata,
    topic_names,
)

#: Calls that must be answered are given up after half a second here, or as good as never.
GATED, PATIENT = (guarded(gate=GateRules(facts_ms=ms)) for ms in (500, 30_000))
_MINUTE_MS = 60_000
_SILENT = Fault(delay_s=30)


def asks_leader(request: Request) -> bool:
    return "leaderBroker" in request.target


class TestTheGate:
    @pytest.mark.parametrize("fails", [False, True])
    def test_no_unload_begins_without_a_leader(self, scene: Scene, fails: bool) -> None:
        scene.cluster.led = fails
        scene.pulsar.fail(lambda one: fails and asks_leader(one), answered(500))
        scene.send_move()
        assert scene.run(GATED) == ["refused gate-leader"]
        assert scene.puts == 0
        assert ("answered 500 to the leader" in scene.reason) == fails

    @pytest.mark.heavy
    def test_no_unload_begins_while_the_metadata_store_does_not_answer(self, scene: Scene) -> None:
        scene.pulsar.fail(reads_metadata, _SILENT)
        scene.send_moves(*BUNDLES)
        assert scene.run(GATED) == ["refused gate-metadata"] * 4
        assert scene.puts == 0

    @pytest.mark.heavy
    @pytest.mark.parametrize("which", range(4))
    def test_no_unload_begins_while_a_broker_is_silent(self, scene: Scene, which: int) -> None:
        """The leader, the source, the destination or a bystander."""
        scene.pulsar.join()
        _, source, destination, _ = scene.cluster.brokers
        silent = scene.cluster.brokers[which]
        scene.owners[ONE] = source
        scene.pulsar.fail(lambda one: one.broker == silent and not asks_leader(one), _SILENT)
        scene.send_move(to=destination, source=source)
        assert scene.run(GATED) == ["refused gate-silent"]
        assert silent in scene.reason
        assert scene.puts == 0

    @pytest.mark.parametrize(
        ("fault", "code", "said"),
        [
            (answered(503), "gate-busy", "answered 503 to a read of metadata"),
            (answered(429), "gate-busy", "answered 429 to a read of metadata"),
            (answered(504), "gate-metadata", "answered 504 to a read of metadata"),
            (Fault(drop=True), "gate-metadata", "closed the connection"),
        ],
    )
    def test_a_broker_that_refuses_at_once_is_not_called_silent(
        self, scene: Scene, fault: Fault, code: str, said: str
    ) -> None:
        scene.pulsar.fail(lambda one: one.broker == scene.two and reads_metadata(one), fault)
        scene.send_move()
        assert scene.run(PATIENT) == [f"refused {code}"]
        assert scene.two in scene.reason
        assert said in scene.reason
        assert "within" not in scene.reason, "nobody waited"

    def test_a_broker_without_a_listening_port_is_not_called_slow(self, scene: Scene) -> None:
        scene.pulsar.kill(scene.three, still_listed=True)
        scene.send_move()
        assert scene.run(PATIENT) == ["refused gate-silent"]
        assert f"{scene.three} does not accept connections" in scene.reason

    def test_a_wave_of_moves_asks_each_broker_once(self, scene: Scene) -> None:
        scene.send_moves(*BUNDLES)
        assert scene.run(PATIENT) == ["applied"] * 4
        assert scene.calls(asks_leader) == 1
        assert scene.calls(reads_metadata) == 3 * 2, "two reads of each broker"

    def test_of_a_large_cluster_some_others_are_probed_beside_those_concerned(
        self, scene: Scene
    ) -> None:
        for _ in range(20):
            scene.pulsar.join()
        scene.send_moves(*BUNDLES)
        assert scene.run(guarded(gate=GateRules(facts_ms=600_000))) == ["applied"] * 4
        probed = {one.broker for one, _ in scene.pulsar.calls if reads_metadata(one)}
        assert {scene.one, scene.two} <= probed
        assert len(probed) <= 16

    def test_no_move_begins_until_the_cluster_has_settled_after_a_broker_was_lost(
        self, scene: Scene
    ) -> None:
        def lose() -> None:
            scene.pulsar.kill(scene.three)
            scene.send_moves(TWO)

        settling = guarded(gate=GateRules(settle_ms=3_600_000))
        told = scene.work_off(scene.send_move, lose, config=settling)
        assert told == ["applied", "refused gate-broker-lost"]
        assert scene.three in scene.reason
        assert len(scene.applied) == 1

    @pytest.mark.heavy
    def test_a_broker_that_hangs_and_then_dies_holds_back_no_move_for_ever(
        self, scene: Scene
    ) -> None:
        def lose() -> None:
            scene.pulsar.kill(scene.three)
            time.sleep(0.6)  # what the gate knows is too old then
            scene.send_moves(TWO)

        scene.pulsar.fail(lambda request: request.broker == scene.three, _SILENT)
        quick = guarded(gate=GateRules(facts_ms=500, settle_ms=0))
        told = scene.work_off(scene.send_move, lose, config=quick)
        assert told == ["refused gate-silent", "applied"]

    def test_a_broker_that_left_while_there_was_nothing_to_do_is_lost_since_then(
        self, scene: Scene
    ) -> None:
        now, lost = [0.0], []
        with scene.client() as admin:
            gate = MoveGate(admin, GateRules(settle_ms=30_000), lambda: now[0])
            for now[0] in range(0, 600, 5):
                if now[0] == 300:
                    scene.pulsar.kill(scene.three)
                gate.keep_up()
                found = gate.objection()
                if found is not None and found.code == "gate-broker-lost":
                    lost.append(now[0])
        assert lost == [300, 305, 310, 315, 320, 325]
        assert scene.calls(lists_brokers) == 600 / 15

    def test_answers_that_are_too_old_are_asked_for_again(self, scene: Scene) -> None:
        now, asked = [0.0], []
        with scene.client() as admin:
            gate = MoveGate(admin, GateRules(facts_ms=30_000), lambda: now[0])
            for now[0] in (0, 29, 31, 60, 62):
                gate.objection()
                asked.append(scene.calls(asks_leader))
        assert asked == [1, 1, 2, 2, 3]

    def test_a_list_that_is_not_answered_is_not_asked_for_at_each_step(self, scene: Scene) -> None:
        now = [0.0]
        scene.pulsar.fail(lambda _: True, answered(401))
        with scene.client() as admin:
            gate = MoveGate(admin, GateRules(settle_ms=30_000), lambda: now[0])
            for now[0] in range(30):
                gate.keep_up()
        assert scene.calls(lists_brokers) == 2

    @pytest.mark.parametrize(
        ("apply", "settle_ms", "looks"), [(True, 1, True), (True, 0, False), (False, 1, False)]
    )
    def test_an_executor_without_commands_looks_who_is_there_if_that_matters(
        self, scene: Scene, apply: bool, settle_ms: int, looks: bool
    ) -> None:
        scene.run(replace(guarded(gate=GateRules(0, settle_ms)), apply=apply))
        assert (scene.calls(lists_brokers) > 0) == looks

    def test_a_dry_run_asks_for_no_gate(self, scene: Scene) -> None:
        scene.cluster.led = False
        scene.send_move()
        assert scene.run(replace(GATED, apply=False)) == ["dry-run dry-run"]


class TestTheBreaker:
    """Each run is a life of the executor: what it knows of failures is in its journal."""

    RULES = BreakerRules(failures=2, within_ms=600_000, pause_ms=_MINUTE_MS)
    BREAKS = replace(guarded(breaker=RULES), at_once=1)
    LATER_MS = _MINUTE_MS + 5_000

    @pytest.fixture(autouse=True)
    def trouble(self, scene: Scene) -> None:
        """Unloads are answered 500."""
        scene.owners.update(dict.fromkeys(BUNDLES, scene.one))
        scene.pulsar.fail(is_put, answered(500))

    def test_it_opens_after_failures_and_closes_after_a_move_that_succeeds(
        self, scene: Scene
    ) -> None:
        scene.send_moves(ONE, TWO, THREE)
        failed = "failed refused-by-broker"
        assert scene.run(self.BREAKS) == [failed, failed, "refused breaker-open"]
        assert scene.puts == 2
        scene.pulsar.heal()
        scene.send_moves(THREE, FOUR)
        assert scene.run(self.BREAKS, later_ms=self.LATER_MS) == ["applied"] * 2

    @pytest.mark.parametrize(
        ("action", "status", "code"),
        [
            ("transfer", 400, "declined"),
            ("transfer", 409, "declined"),
            ("transfer", 412, "not-found"),
            ("transfer", 422, "declined"),
            ("split", 405, "declined"),
            ("split", 409, "declined"),
            ("split", 412, "declined"),
            ("split", 500, "refused-by-broker"),
        ],
    )
    def test_what_a_broker_declines_says_nothing_about_the_cluster(
        self, scene: Scene, action: Any, status: int, code: str
    ) -> None:
        """The good commands that follow are applied."""
        fault = answered(status, b'{"reason":"it is as it is"}')
        scene.pulsar.fail(lambda request: is_put(request) and FOUR not in request.target, fault)
        for bundle in (ONE, TWO, THREE):
            split = scene.release(bundle, action="split")
            scene.send(split if action == "split" else scene.move(bundle))
        scene.send_move(FOUR)
        assert scene.run(self.BREAKS) == [f"failed {code}"] * 3 + ["applied"]

    @pytest.mark.heavy
    def test_one_move_is_tried_while_the_others_of_its_wave_wait_for_a_later_round(
        self, scene: Scene
    ) -> None:
        scene.send_moves(ONE, TWO)
        scene.run(self.BREAKS)
        scene.pulsar.fail(is_put, Fault(delay_s=1))
        scene.send_moves(THREE, FOUR)
        told = scene.run(replace(self.BREAKS, at_once=2), later_ms=self.LATER_MS)
        assert sorted(told) == ["applied", "refused breaker-open"]
        (refused,) = [one for one in scene.outcomes if one.status == "refused"]
        assert "one move is being tried" in str(refused.reason)

    def test_it_is_shown_as_what_it_is(self, scene: Scene) -> None:
        scene.send_moves(ONE, TWO)
        with executor(scene.pulsar, scene.control, self.BREAKS) as at_work:
            codes = [at_work.guard.breaker.state().code]
            while at_work.step(0):
                codes.append(at_work.guard.breaker.state().code)
        assert (codes[0], codes[-1]) == ("closed", "open")


@pytest.mark.heavy
def test_half_of_all_calls_unanswered_leaves_nothing_half_done(scene: Scene) -> None:
    def send(bundle: str) -> None:
        scene.owners[bundle] = owner = scene.owners[bundle] or scene.one
        to = scene.two if owner != scene.two else scene.three
        scene.send_move(bundle, source=owner, to=to)

    chance = random.Random(5)
    scene.pulsar.fail(lambda _: chance.random() < 0.5, Fault(drop=True))
    breaker = BreakerRules(failures=3, pause_ms=_MINUTE_MS)
    troubled = guarded(gate=GateRules(facts_ms=200), breaker=breaker, repairs=5)
    for number in range(12):
        send(BUNDLES[number % 4])
    told = scene.run(troubled)
    assert len(told) == 12, "each command has its outcome"
    assert all(one.reason or one.status == "applied" for one in scene.outcomes)
    codes = Counter(one.partition(" ")[2].partition("-")[0] for one in told)
    assert codes["gate"] + codes["breaker"] > 0, told

    scene.pulsar.heal()
    for bundle in (ONE, TWO, THREE):
        send(bundle)
    # One by one: if the breaker is open, the first one closes it.
    alone = replace(troubled, at_once=1)
    assert scene.run(alone, later_ms=2 * _MINUTE_MS) == ["applied"] * 3
    with scene.journal() as journal:
        assert journal.unfinished() == []


@pytest.mark.parametrize(
    ("hold_ms", "owned", "expected"),
    [
        (10 * _MINUTE_MS, False, "refused unowned-bundle"),
        (10 * _MINUTE_MS, True, "applied"),
        (_MINUTE_MS, False, "applied"),
    ],
)
def test_while_a_bundle_with_clients_has_no_owner_after_a_move_its_namespace_rests(
    pulsar: FakePulsar, scene: Scene, hold_ms: int, owned: bool, expected: str
) -> None:
    """Until it is owned, or for so long. The second command comes a minute later."""
    holds = guarded(unowned_hold_ms=hold_ms)
    pulsar.cluster.manager, pulsar.cluster.lookups = "modular", False
    pulsar.cluster.figures[next(topic_names(ONE))] = {"publishers": [{}], "msgRateIn": 0.0}
    scene.pulsar.fail(is_lookup, answered(503))
    scene.send_moves(ONE)
    assert scene.run(holds, measure_ms=100) == ["applied unowned"]

    if owned:
        scene.owners[ONE] = scene.two
    if expected == "applied":
        scene.pulsar.heal()
    scene.send_moves(TWO)
    assert scene.run(holds, later_ms=_MINUTE_MS, measure_ms=100) == [expected]
    assert (ONE in scene.reason) == (expected != "applied")
    with scene.journal() as journal:
        assert bool(MoveJournal(journal).unowned("t/ns")) == (expected != "applied")


def test_a_namespace_rests_on_while_the_owner_cannot_be_asked_for(scene: Scene) -> None:
    with scene.client() as admin, scene.journal() as journal:
        unowned = UnownedBundles(MoveJournal(journal), admin, _MINUTE_MS, lambda: 5_000)
        unowned.add(ONE)
        scene.pulsar.fail(lists_brokers, answered(500))
        assert unowned.objection("t/ns") is not None
