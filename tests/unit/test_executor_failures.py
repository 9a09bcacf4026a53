"""When calls fail or the process dies, commands are applied once and told once."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from sinks.executor.settings import ExecutorConfig, GuardRules
from strategies.errors import Unauthorized
from tests.pulsar_fake.model import Answer, Applied, Request
from tests.pulsar_fake.server import Fault, answered, is_put
from tests.unit.executor_lives import APPLY, NEVER, ONE, TWO, executor, lives_until_done
from tests.world.services import Scene, asks_owner, guarded, is_lookup, lists_brokers

REPAIRS = guarded(repairs=10)


class TestWhenCallsFail:
    """Retried only where that is safe, and verified against the owner before anything is said."""

    def test_a_busy_broker_is_asked_again(self, scene: Scene) -> None:
        busy = iter([answered(503), answered(429)])
        scene.pulsar.faults = lambda request: next(busy, None) if is_put(request) else None
        scene.send_move()
        assert scene.run() == ["applied"]
        assert len(scene.applied) == 1

    @pytest.mark.parametrize(
        ("status", "code", "puts"),
        [
            (503, "broker-unavailable", 3),
            (409, "declined", 1),
            (412, "not-found", 1),
            (404, "not-found", 1),
            (500, "refused-by-broker", 1),
        ],
    )
    def test_a_refusal_is_final_and_a_busy_broker_is_not_asked_for_ever(
        self, scene: Scene, status: int, code: str, puts: int
    ) -> None:
        scene.pulsar.fail(is_put, answered(status, b'{"reason":"so"}'))
        scene.send_move()
        assert (scene.run(), scene.puts) == ([f"failed {code}"], puts)

    @pytest.mark.parametrize("plain", [True, False])
    def test_a_lost_answer_is_looked_after_and_not_repeated(
        self, scene: Scene, plain: bool
    ) -> None:
        def loses(request: Request) -> bool:
            of_source = request.broker == scene.one and "authoritative" in request.target
            return is_put(request) and (plain or of_source)

        scene.pulsar.fail(loses, Fault(drop_after=True))
        scene.send(scene.release() if plain else scene.move())

        assert scene.run()[0].startswith("applied")
        assert len(scene.applied) == 1

    @pytest.mark.parametrize(("release", "puts"), [(True, 1), (False, 2)])
    def test_an_unload_whose_answer_is_lost_is_repeated_once_and_never_on_a_guess(
        self, scene: Scene, release: bool, puts: int
    ) -> None:
        """Without a destination nobody knows whether it was carried out."""
        scene.pulsar.fail(is_put, Fault(drop=True))
        scene.send(scene.release() if release else scene.move())
        assert scene.run(REPAIRS) == ["failed unanswered"]
        assert scene.puts == puts

    def test_a_destination_that_dies_in_the_middle_is_declined(self, scene: Scene) -> None:
        def die(request: Request) -> None:
            if is_put(request) and scene.three in scene.cluster.brokers:
                scene.cluster.brokers.remove(scene.three)

        scene.send_move(to=scene.three)
        scene.pulsar.faults = die

        assert scene.run() == ["failed declined"]
        assert scene.owners[ONE] == scene.one

    @pytest.mark.parametrize(
        ("release", "looks", "then", "expected"),
        [
            (False, 5, 1, "applied"),
            (False, 5, 0, "applied"),
            (False, NEVER, 1, "failed not-owned"),
            (True, 5, 0, "failed not-owned"),
        ],
    )
    def test_a_transfer_waits_for_the_end_of_another_unload_but_not_without_end(
        self, scene: Scene, release: bool, looks: int, then: int, expected: str
    ) -> None:
        """It begins just before ours and leaves the bundle to `then`. A release is not repeated."""
        unloading, seen = scene.cluster.being_unloaded, count()

        def under_way(request: Request) -> None:
            if is_put(request) and not next(seen):
                unloading.add(ONE)
            elif ONE in unloading and asks_owner(request) and next(seen) > looks:
                unloading.clear()
                scene.owners[ONE] = scene.cluster.brokers[then]

        scene.pulsar.faults = under_way
        scene.send(scene.release() if release else scene.move())

        assert scene.run() == [expected]
        ours = [Applied("unload", ONE, scene.one, scene.two)]
        assert scene.applied == (ours if (release, then) == (False, 0) else [])

    def test_a_transfer_that_brokers_pass_to_and_fro_is_tried_again(self, scene: Scene) -> None:
        passed_on = count()

        def to_and_fro(request: Request) -> Fault | None:
            if not is_put(request) or next(passed_on) > 8:
                return None
            other = scene.three if request.broker == scene.one else scene.one
            return Fault(instead=Answer(307, location=f"http://{other}{request.target}"))

        scene.pulsar.faults = to_and_fro
        scene.send_move()

        assert scene.run() == ["applied"]
        assert scene.applied == [Applied("unload", ONE, scene.one, scene.two)]

    def test_a_pause_between_two_attempts_ends_them(self, scene: Scene) -> None:
        scene.pulsar.fail(is_put, answered(503))
        scene.send_move()
        assert scene.run(scene.pausing()) == ["failed broker-unavailable"]
        assert scene.puts == 1

    @pytest.mark.parametrize("fails", [False, True])
    def test_without_clients_the_executor_itself_brings_the_bundle_to_its_destination(
        self, scene: Scene, fails: bool
    ) -> None:
        scene.cluster.lookups = False
        scene.pulsar.fail(lambda request: fails and is_lookup(request), answered(503))
        scene.send_move()
        unowned = fails and scene.cluster.manager == "modular"
        assert scene.run() == ["applied not-looked-up" if unowned else "applied"]
        assert scene.owners[ONE] == (None if unowned else scene.two)

    def test_a_wrong_token_ends_the_program_and_the_command_comes_again(self, scene: Scene) -> None:
        scene.send_move()
        scene.cluster.token = "changed"
        with pytest.raises(Unauthorized):
            scene.run()
        assert scene.outcomes == []
        scene.cluster.token = None
        assert scene.run() == ["applied"]


class TestAfterADeath:
    """At some point between reading a command and committing it."""

    @pytest.mark.parametrize(
        "moment", ["before the call", "after the call", "before publishing", "before committing"]
    )
    def test_a_split_is_applied_once(self, scene: Scene, moment: Any) -> None:
        scene.send(scene.release(action="split"))
        scene.run_until_death(moment)
        assert scene.run() == ["applied"]
        assert [done.action for done in scene.applied] == ["split"]

    @pytest.mark.parametrize(
        ("release", "config", "later_ms", "expected"),
        [
            (True, APPLY, 0, "failed interrupted"),
            (False, APPLY, 400_000, "expired expired"),
            (False, ExecutorConfig("c"), 0, "dry-run dry-run"),
        ],
    )
    def test_what_is_not_sure_is_late_or_is_not_to_be_applied_is_not_repeated(
        self, scene: Scene, release: bool, config: ExecutorConfig, later_ms: int, expected: str
    ) -> None:
        scene.send(scene.release() if release else scene.move())
        scene.run_until_death("before the call")
        assert scene.run(config, later_ms=later_ms) == [expected]
        assert scene.puts == 0

    @pytest.mark.parametrize("went", ["not-looked-up", "elsewhere"])
    def test_a_dry_run_after_an_unload_only_says_where_the_bundle_is(
        self, scene: Scene, went: str
    ) -> None:
        scene.send_move()
        scene.run_until_death("before the call")
        scene.cluster.manager, scene.cluster.lookups = "modular", False
        scene.owners[ONE] = None if went == "not-looked-up" else scene.three
        dry = ExecutorConfig("c", guard=GuardRules(repairs=1))
        assert scene.run(dry) == [f"applied {went}"]
        assert went != "elsewhere" or "this is a dry run" in scene.reason
        assert (scene.puts, scene.calls(is_lookup)) == (0, 0)

    @pytest.mark.parametrize("silent", [False, True])
    def test_a_repair_after_a_death_is_refused_while_a_broker_is_frozen_or_none_says_who_is_there(
        self, scene: Scene, silent: bool
    ) -> None:
        scene.send_move()
        scene.run_until_death("before the call")
        scene.owners[ONE] = scene.three
        lists = count(1)
        # Three are read to find the bundle.
        scene.pulsar.fail(
            lambda one: silent and lists_brokers(one) and next(lists) > 3, answered(503)
        )

        def frozen(brokers: Sequence[str]) -> str:
            return f"{scene.two} is frozen" if scene.two in brokers else ""

        repairs = guarded(repairs=1)
        with executor(scene.pulsar, scene.control, repairs, frozen=frozen) as one_life:
            one_life.recover()

        assert scene.news() == ["applied elsewhere"]
        code = "cluster-error" if silent else "broker-frozen"
        assert f"not unloaded once more: {code}" in scene.reason
        assert scene.puts == 0


def steal(scene: Scene, thief: str, times: int = NEVER) -> None:
    """A client sends bundles to the wrong broker, so many times, before anybody else asks."""
    scene.cluster.manager = "modular"
    stolen = count()

    def look_up(_: Request) -> None:
        for bundle, owner in scene.owners.items():
            if owner is None and next(stolen) < times:
                scene.owners[bundle] = thief

    scene.pulsar.faults = look_up


class TestALostDestination:
    @pytest.mark.parametrize(
        ("thief", "repairs", "expected", "says"),
        [
            ("three", 0, "applied elsewhere", "executor.repairs is 0"),
            ("one", 0, "failed came-back", ""),
            ("three", 1, "applied elsewhere", "a second unload did not bring it there"),
        ],
    )
    def test_it_is_told_when_it_cannot_be_repaired(
        self, scene: Scene, thief: str, repairs: int, expected: str, says: str
    ) -> None:
        steal(scene, getattr(scene, thief))
        scene.send_move()
        assert scene.run(guarded(repairs=repairs)) == [expected]
        assert len(scene.applied) == 1 + repairs
        assert says in scene.reason

    def test_a_release_without_destination_is_never_repaired(self, scene: Scene) -> None:
        steal(scene, scene.one)
        scene.send(scene.release())
        assert scene.run(REPAIRS) == ["failed came-back"]
        assert len(scene.applied) == 1

    @pytest.mark.parametrize("thief", ["three", "one"])
    def test_it_is_repaired_with_the_reason_in_the_outcome(self, scene: Scene, thief: str) -> None:
        steal(scene, getattr(scene, thief), times=1)
        scene.send_move()
        assert scene.run(REPAIRS) == ["applied repaired"]
        (outcome,) = scene.outcomes
        assert (outcome.owner_after, outcome.cost.unloads) == (scene.two, 2)
        assert getattr(scene, thief) in scene.reason
        assert scene.owners[ONE] == scene.two

    def test_repairs_have_a_budget_that_outlives_the_process(self, scene: Scene) -> None:
        for bundle, expected in ((ONE, "applied repaired"), (TWO, "applied elsewhere")):
            steal(scene, scene.three, times=1)
            scene.send_moves(bundle)
            assert scene.run(guarded(repairs=1)) == [expected]
        assert "the 1 repairs of this hour are used up (executor.repairs)" in scene.reason

    def test_a_pause_that_comes_in_between_is_obeyed(self, scene: Scene) -> None:
        steal(scene, scene.three)
        scene.send_move()
        assert scene.run(scene.pausing(REPAIRS)) == ["applied elsewhere"]
        assert len(scene.applied) == 1
        assert "not unloaded once more: paused: this executor is paused" in scene.reason

    def test_a_repair_that_a_broker_refuses_is_no_second_unload(self, scene: Scene) -> None:
        steal(scene, scene.three)
        others, puts = scene.pulsar.faults, count()

        def refuse_the_second(request: Request) -> Fault | None:
            if is_put(request) and scene.owners[ONE] == scene.three and not next(puts):
                return answered(500)
            return others(request)

        scene.pulsar.faults = refuse_the_second
        scene.send_move()

        assert scene.run(REPAIRS) == ["applied elsewhere"]
        assert (len(scene.applied), scene.outcomes[0].cost.unloads) == (1, 1)
        assert "not unloaded once more" in scene.reason
        assert "answered 500" in scene.reason

    @pytest.mark.heavy
    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_no_bundle_is_unloaded_more_than_twice_however_often_the_process_dies(
        self, scene: Scene, step: int
    ) -> None:
        lives = 0
        for first in range(0, 40, step):
            scene.applied.clear()
            steal(scene, scene.three)
            (move,) = scene.send_moves(ONE)
            moments = iter([first, first + step, step])
            lives += lives_until_done(scene.pulsar, scene.control, REPAIRS, moments)
            assert 1 <= len(scene.applied) <= 2, (first, scene.applied)
            ours = [one for one in scene.outcomes if one.command_id == move.id]
            assert len({(one.status, one.owner_after) for one in ours}) == 1, ours
        assert lives > 60 // step, "it has died, and gone on"
