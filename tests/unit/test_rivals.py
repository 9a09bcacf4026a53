"""Moves of bundles by something else are recognised, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from strategies.cluster.drain_settings import DrainSettings
from strategies.cluster.rival_settings import RivalSettings
from strategies.cluster.rival_state import Rivals, Sighting
from strategies.fold.engine import EngineSettings
from strategies.fold.ownership import Listing, listed
from streaming.state.cluster_bytes import from_bytes, to_bytes
from tests.world.intents import drain
from tests.world.little_cluster import LittleCluster, spread_out
from tests.world.rivals import PASS_S, A, B, C, Life, three_brokers

#: Nothing in these stories may yield.
PATIENT = RivalSettings(moves_per_hour=0)


def test_a_bundle_that_another_living_broker_has_now_was_moved() -> None:
    life = three_brokers()
    life.move(3, B)
    life.passes(2)
    assert life.foreign == [(3, A, B)]
    assert not life.store.get_cluster().rivals.moves[-1].against, "we had moved nothing"


def test_it_does_not_matter_which_broker_reports_first() -> None:
    for first, then in ((A, B), (B, A)):
        life = three_brokers()
        if first == A:
            life.leave(3)
        else:
            life.owned[B].append(3)
        life.passes()
        assert life.foreign == []
        if then == A:
            life.owned[A].remove(3)
        else:
            life.owned[B].append(3)
        life.passes(2)
        assert life.foreign == [(3, A, B)]


def test_a_bundle_may_be_without_a_broker_for_minutes() -> None:
    life = three_brokers()
    life.leave(3)
    life.passes(12)
    life.owned[C].append(3)
    life.passes(2)
    assert life.foreign == [(3, A, C)]


def test_one_sweep_is_not_enough_because_a_broker_that_shuts_down_gives_its_bundles_up() -> None:
    life = three_brokers(started_s=dict.fromkeys((A, B, C), -900))
    for number in (0, 1, 2):
        life.move(number, B)
    life.passes(1)
    assert life.foreign == []
    life.passes(4, gone=[A])
    assert life.foreign == []


def test_bundles_of_a_dead_broker_were_placed_by_pulsar() -> None:
    life = three_brokers()
    for number in range(10):
        life.move(number, B if number % 2 else C)
    life.passes(5, gone=[A])
    life.passes(10)
    assert life.foreign == []


def test_bundles_of_a_silent_broker_were_placed_by_pulsar_also_when_it_comes_back() -> None:
    life = three_brokers()
    for number in range(5):
        life.move(number, B)
    life.passes(3, missing=[A])
    life.passes(10)
    assert life.foreign == []


def test_a_broker_that_was_frozen_may_report_an_old_list_once_more() -> None:
    life = three_brokers()
    life.passes(3, missing=[A])
    life.owned[B].append(3)
    life.passes(1)
    life.owned[A].remove(3)
    life.passes(5)
    assert life.foreign == []


@pytest.mark.parametrize("says_when", [True, False])
def test_a_restart_between_two_passes_is_noticed(says_when: bool) -> None:
    life = three_brokers(started_s=dict.fromkeys((A, B, C), -900) if says_when else {})
    for number in range(10):
        life.move(number, B if number % 2 else C)
    if says_when:
        life.started_s[A] = life.now_s + 5
        life.move(7, A)  # one of them is back already
    life.passes(10)
    assert life.foreign == []


def test_a_script_that_empties_a_broker_is_no_restart() -> None:
    life = three_brokers(started_s=dict.fromkeys((A, B, C), -900), rivals=PATIENT)
    for number in range(10):
        life.move(number, B)
    life.passes(2)
    assert len(life.foreign) == 10


def test_halves_of_a_split_bundle_that_are_unloaded_at_once_were_not_moved() -> None:
    life = three_brokers()
    life.leave(3)
    life.owned[A] += [100, 101]
    life.passes(2)
    life.move(101, C)
    life.passes(5)
    assert life.foreign == []


def test_the_first_list_of_a_broker_does_not_show_when_it_got_its_bundles() -> None:
    life = three_brokers()
    life.owned["d:8080"] = [3, 4]
    life.passes(1)
    life.leave(3)
    life.owned["d:8080"] = [3, 4]
    life.passes(5)
    assert life.foreign == []


def test_a_bundle_that_a_newcomer_got_is_moved_where_its_old_broker_lost_it_before() -> None:
    life = three_brokers()
    life.owned["d:8080"] = []
    life.move(3, "d:8080")
    life.passes(3)
    assert life.foreign == [(3, A, "d:8080")]


def test_nothing_is_known_of_the_time_in_which_no_pass_came() -> None:
    life = three_brokers()
    life.now_s += 120
    life.move(3, B)
    life.passes(4)
    assert life.foreign == []


def test_system_bundles_do_not_count() -> None:
    life = three_brokers()
    assert life.foreign == []


class TestExtensibleBrokers:
    """Their reports list some bundles only; the collector notes all of them, where they change."""

    def test_a_bundle_that_another_broker_owns_now_was_moved(self) -> None:
        life = three_brokers(noted=True)
        life.move(3, B)
        life.passes(2)
        assert life.foreign == [(3, A, B)]

    def test_many_bundles_that_a_broker_loses_at_once_were_not_unloaded(self) -> None:
        life = three_brokers(noted=True)
        for number in range(6):
            life.move(number, B)
        life.passes(1)
        life.move(7, B)
        life.passes(5)
        assert life.foreign == []

    def test_our_moves_and_those_of_dead_brokers_are_none(self) -> None:
        life = three_brokers(noted=True)
        life.command(3, A, B)
        life.move(3, B)
        life.outcome(3, "applied", A, B)
        life.move(21, A)
        life.passes(3, gone=[C])
        life.passes(5)
        assert life.foreign == []


class TestOurMoves:
    def test_a_command_explains_a_move_before_and_after_its_outcome(self) -> None:
        for wait in (0, 1, 3):
            life = three_brokers()
            life.command(3, A, B)
            life.move(3, B)
            life.passes(wait)
            life.outcome(3, "applied", A, B)
            life.passes(15)
            assert life.foreign == [], wait

    def test_a_command_without_an_outcome_explains_that_its_bundle_left(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, B)
        life.command(14, B, A)
        life.move(14, C)
        life.command(24, C, A)
        life.passes(5)
        assert life.foreign == [], "the outcome may still come"
        life.passes(30)
        assert life.foreign == []

    def test_a_destination_that_was_lost_and_repaired_is_ours(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, C)
        life.passes(1)
        life.move(3, B)
        life.passes(1)
        life.outcome(3, "applied", A, B)
        life.passes(10)
        assert life.foreign == []

    def test_a_destination_that_was_lost_is_ours(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, C)
        life.outcome(3, "applied", A, C)
        life.passes(10)
        assert life.foreign == []

    @pytest.mark.parametrize("status", ["refused", "expired"])
    def test_a_command_that_is_not_carried_out_explains_nothing(self, status: str) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, B)
        life.passes(1)
        life.outcome(3, status, None, None)
        life.passes(2)
        assert life.foreign == [(3, A, B)]

    def test_an_executor_that_failed_may_have_released_the_bundle(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, C)
        life.outcome(3, "failed", A, None)
        life.passes(10)
        assert life.foreign == []

    def test_the_outcome_of_an_unknown_command_explains_its_move_even_afterwards(self) -> None:
        life = three_brokers()
        life.move(3, B)
        life.passes(2)
        assert life.foreign == [(3, A, B)]
        life.outcome(3, "applied", A, B)
        assert life.foreign == []

    def test_a_bundle_that_leaves_where_we_put_it_was_moved(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.move(3, B)
        life.outcome(3, "applied", A, B)
        life.passes(2)
        life.move(3, C)
        life.passes(2)
        assert life.foreign == [(3, B, C)]
        assert life.store.get_cluster().rivals.moves[-1].against

    def test_a_bundle_that_was_taken_back_before_any_report_showed_it_was_moved(self) -> None:
        life = three_brokers()
        life.command(3, A, B)
        life.outcome(3, "applied", A, B)
        life.passes(4)
        assert life.foreign == [], "the lists may be old"
        life.passes(5)
        assert life.foreign == [(3, B, A)]


class TestState:
    def test_it_survives_in_bytes(self) -> None:
        life = three_brokers()
        life.command(14, B, A)
        life.leave(5)
        life.move(3, B)
        life.passes(1)
        life.move(4, B)
        life.passes(1)
        state = life.store.get_cluster()
        assert from_bytes(to_bytes(state)) == state
        assert state.rivals.suspects
        assert state.rivals.moves


class TestRests:
    def test_a_moved_bundle_rests_as_after_our_own_move_and_the_round_says_it(self) -> None:
        life = three_brokers(cpu={A: 95.0}, leader=C, shedding=True)
        life.move(13, A)
        life.passes(2)
        skip = life.skip("moved-by-others")
        assert len(skip.names) == 1
        assert skip.text == (
            f"something else moved 1 bundle (1 from {B} to {A}); Pulsar's own shedder is on at "
            f"the leader {C}; each rests for round.cool_down_ms = 1800000"
        )
        given = [event for event in life.events if getattr(event, "bundle", "") == skip.names[0]]
        assert given == []

    def test_without_a_cool_down_nothing_rests(self) -> None:
        life = three_brokers(cool_down_ms=0)
        life.move(13, A)
        life.passes(2)
        assert life.foreign == [(13, B, A)]
        assert all(skip.code != "moved-by-others" for skip in life.last.skips)


class TestYielding:
    def test_rounds_yield_above_the_rate_and_act_again_after_a_calm_time(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3, calm_ms=200_000))
        for number in (0, 1, 2):
            life.move(number, B)
            life.passes(2)
        assert life.state != "yielding"
        life.move(3, B)
        life.passes(2)
        assert life.state == "yielding"
        since = life.last.round
        life.passes(20)
        assert life.state != "yielding"
        yielding = [one for one in life.rounds if one.state and one.state.code == "yielding"]
        assert 8 <= len(yielding) <= 10
        assert yielding[0].round == since

    def test_while_they_yield_they_have_no_commands_and_say_why(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3), leader=C, shedding=False)
        for number in (10, 11, 12, 13, 14):
            life.move(number, C)
        life.passes(2)
        assert life.state == "yielding"
        assert life.last.state is not None
        assert life.last.state.text == (
            "something else moves bundles, and rounds yield to it: something else has moved 5 "
            f"bundles in {PASS_S + 3} s (5 from {B} to {C}), the last one {PASS_S + 3} s ago; a "
            "person, a script or a former leader moves them: Pulsar's own shedder is off at the "
            f"leader {C}; rounds act again after 15 min (rivals.calm_ms) without such a move "
            "[yielding]"
        )
        life.cpu = {A: 99.0}
        life.passes(1)
        assert life.last.commands == ()
        assert "rounds-yield" in {skip.code for skip in life.last.skips}

    def test_the_drain_of_an_operator_goes_on(self) -> None:
        names = ("a:1", "b:1", "c:1", "d:1")
        settings = EngineSettings(
            rivals=RivalSettings(moves_per_hour=2), drains=DrainSettings(bundles_at_a_time=1)
        )
        made = LittleCluster(spread_out(names, 12), settings)
        made.passes(5)
        for bundle in list(made.brokers["b:1"])[:3]:
            made.move(bundle, "b:1", "c:1")
        made.passes(2)
        made.tell(drain(1, made.seconds + 5, "a:1"))
        states = [made.passes().state for _ in range(4)]
        assert len(made.brokers["a:1"]) < 12
        assert {one.code for one in made.commands} == {"drain"}
        assert states[0] is not None
        assert states[0].code == "acting"
        assert made.store.get_cluster().rivals.yielding_ms is not None

    def test_a_rate_of_zero_never_yields(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=0))
        for number in (*range(7), *range(10, 17)):
            life.move(number, C)
        life.passes(4)
        assert len(life.foreign) > 10
        assert life.state != "yielding"

    def test_moves_against_ours_in_two_rounds_in_a_row_are_enough(self) -> None:
        life = three_brokers()
        for number in (3, 4):
            life.command(number, A, B)
            life.move(number, B)
            life.outcome(number, "applied", A, B)
        life.passes(3)
        life.move(3, A)
        life.passes(1)
        life.move(4, A)
        life.passes(1)
        assert life.state != "yielding"
        life.passes(1)
        assert (life.state, life.foreign) == ("yielding", [(3, B, A), (4, B, A)])

    def test_they_yield_again_only_to_new_moves(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3, calm_ms=60_000))
        for number in range(4):
            life.move(number, B)
        life.passes(10)
        assert life.state != "yielding"
        for number in range(4, 8):
            life.move(number, B)
        life.passes(2)
        assert life.state == "yielding"

    def test_who_is_unknown_where_the_collector_does_not_say_it(self) -> None:
        life = three_brokers()
        life.move(3, B)
        life.passes(2)
        assert "the collector could not read at the leader" in life.skip("moved-by-others").text

    def test_a_clock_that_goes_back_does_not_end_it(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3))
        for number in range(4):
            life.move(number, B)
        life.passes(2)
        assert life.state == "yielding"
        life.now_s -= 90
        life.passes(6)
        assert life.state == "yielding"


def test_a_note_that_lists_a_bundle_twice_says_what_one_says_that_lists_it_once() -> None:
    here, there, stays = (f"t/ns/0x{n}0000000_0x{n + 1}0000000" for n in range(3))
    rivals = Rivals(watching_ms=0, left={there: Sighting(A, 5, False)})

    def after(times: int) -> Rivals:
        before, now = (here,) * times + (stays,), (stays,) + (there,) * times
        return listed(rivals, Listing(B, 9_000_000, before, now, 8_900_000, None))

    assert [one.move.bundle for one in after(1).suspects] == [there]
    assert after(2) == after(1)


def test_stories_begin_without_rivals() -> None:
    life: Life = three_brokers()
    assert (life.foreign, life.state) == ([], "balanced")
