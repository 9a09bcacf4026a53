"""What rounds say about a roll, and whole rolls in a small world: also with processes that die."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from strategies.cluster.intent_contract import RollPhase
from strategies.cluster.round_figures import RoundState
from strategies.roll.steps import EndProcess, HaltRoll
from strategies.roll.view import RollRounds, RollRules, after_round, roll_view
from tests.unit.roll_builders import (
    NOW,
    ROLL,
    A,
    B,
    C,
    D,
    RollProcess,
    World,
    drain_status,
    roll_status,
    run_roll,
)
from tests.unit.test_roll_steps import ALL_WAIT, ONE_GOES
from tests.unit.test_wire_encoding import ROUND


class TestRounds:
    def test_what_rounds_say_is_kept(self) -> None:
        statuses = [
            roll_status({B: "restarted", A: "draining"}),
            drain_status(A, "draining"),
            drain_status(B, "done"),
            drain_status(C, roll="another"),
            roll_status({}, id="r", state="refused"),
        ]
        done = replace(ROUND, ts=5, brokers=(A, B), usage={A: 0.5, B: 0.5}, stale={C: "silent"})
        one = after_round(RollRounds(), done, statuses, ROLL, RollRules(), now_ms=NOW)
        assert one.view == roll_view(statuses, ROLL)
        assert (list(one.view.phases), list(one.view.drains)) == ([A, B], [A])
        assert list(one.view.refused) == ["r"]
        assert (one.brokers, one.stale, one.fresh) == ((A, B, C), {C: "silent"}, {B: 1})
        assert one.restarted_ms == {B: NOW}
        two = after_round(one, replace(done, ts=9), statuses, ROLL, RollRules(), now_ms=NOW + 1)
        assert (two.fresh, two.restarted_ms, two.after(5)) == ({B: 2}, {B: NOW}, 1)
        gone = after_round(
            two, replace(done, stale={B: "silent"}), statuses, ROLL, RollRules(), now_ms=NOW
        )
        assert gone.fresh == {B: 0}

    def test_rounds_without_a_broker_that_waits_count(self) -> None:
        statuses, known = [roll_status({A: "restarted", B: "waiting"})], RollRounds()
        counts = []
        for brokers in ((A,), (A,), (A, B)):
            done = replace(ROUND, brokers=brokers, usage=dict.fromkeys(brokers, 0.5), stale={})
            known = after_round(known, done, statuses, ROLL, RollRules(), now_ms=NOW)
            counts.append(known.unknown)
        assert counts == [{B: 1}, {B: 2}, {}]

    def test_even_rounds_count_when_all_are_restarted(self) -> None:
        def even(code: str, phase: RollPhase = "restarted") -> tuple[int, int]:
            state = RoundState(code, "as it is", "Wait.")  # type: ignore[arg-type]
            status = roll_status({A: "restarted", B: phase})
            known = RollRounds(balanced=2, helpless=1)
            found = after_round(
                known, replace(ROUND, state=state), [status], ROLL, RollRules(), now_ms=NOW
            )
            return found.balanced, found.helpless

        assert (even("balanced"), even("acting")) == ((3, 0), (0, 0))
        assert (even("cannot-help"), even("not-allowed")) == ((0, 2), (0, 2))
        assert even("balanced", "restarting") == even("cannot-help", "restarting") == (0, 0)

    def test_a_round_that_is_blind_by_the_restart_is_no_alarm(self) -> None:
        def bad(phases: Any, stale: dict[str, str], code: str = "blind") -> int:
            state = RoundState(code, "cannot judge", "Wait.")  # type: ignore[arg-type]
            done = replace(ROUND, usage={}, stale=stale, state=state)
            status = roll_status(phases)
            return after_round(RollRounds(bad=1), done, [status], ROLL, RollRules(), now_ms=NOW).bad

        assert bad(ONE_GOES, {A: "silent"}) == 0
        assert bad({A: "restarted", B: "waiting"}, {A: "silent"}) == 0
        assert bad(ONE_GOES, {A: "silent", B: "silent"}) == 2
        assert bad(ALL_WAIT, {A: "silent"}) == 2
        assert bad(ONE_GOES, {}) == 2
        assert bad(ONE_GOES, {A: "silent"}, "yielding") == 2
        assert bad(ALL_WAIT, {A: "silent"}, "acting") == 0


class TestWholeRolls:
    def test_a_roll_over_four_brokers(self) -> None:
        world = World()
        (process,) = run_roll(world)
        assert process.ended == EndProcess("done", "all are restarted", "Nothing to do.")
        assert world.restarts == [A, B, C, D]
        assert world.most_out == 1

    def test_a_process_whose_clock_is_ahead_gives_brokers_all_their_time(self) -> None:
        rules = RollRules(restart_timeout_ms=300_000)
        (process,) = run_roll(World(rounds_behind_ms=300_000, rules=rules))
        assert process.ended == EndProcess("done", "all are restarted", "Nothing to do.")

    def test_two_at_a_time(self) -> None:
        world = World(max_unavailable=2)
        run_roll(world)
        assert sorted(world.restarts) == [A, B, C, D]
        assert world.restarts[-1] == D
        assert world.most_out <= 2

    def test_a_broker_that_stays_away_halts_the_roll_and_it_goes_on_later(self) -> None:
        world = World(down_ms=3_000_000)
        (process,) = run_roll(world)
        assert isinstance(process.ended, HaltRoll)
        assert world.restarts == [A]
        world.pass_(3_000_000)
        world.down_ms = 30_000
        process = RollProcess(world, "q")
        process.write("resume")
        while process.ended is None:
            process.step()
            world.pass_(5_000)
        assert process.ended.text == "all are restarted"
        assert world.restarts == [A, B, C, D]

    @pytest.mark.parametrize("seed", range(40))
    def test_processes_that_die_anywhere_restart_nobody_twice(self, seed: int) -> None:
        """Some die between the announcement and the command: the last one then halts, and names
        the broker.
        """
        random = Random(seed)
        world = World(max_unavailable=random.choice([1, 1, 2]), leader=random.choice([A, B, D]))
        last = run_roll(world, random, deaths=4)[-1].ended
        assert len(world.restarts) == len(set(world.restarts))
        assert world.most_out <= world.max_unavailable
        assert isinstance(last, HaltRoll) or sorted(world.restarts) == [A, B, C, D]
        if isinstance(last, HaltRoll):
            assert "--restart-again" in last.advice
        for broker, leader, waiting in world.leaders:
            assert broker != leader or waiting == 1
