"""Moves of bundles by something else are recognised, and nothing else is taken for one."""

from collections.abc import Callable
from typing import Any

import pytest

from strategies.cluster.rival_state import Rivals, Sighting
from strategies.fold.engine import EngineSettings
from strategies.fold.foreign_moves import Listing, learn_list
from strategies.settings import DrainSettings, RivalSettings
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.world.intents import drain
from tests.world.little_cluster import LittleCluster, spread_out
from tests.world.rivals import PASS_S, A, B, C, Life, three_brokers

D = "d:8080"
#: Nothing in these stories may yield.
PATIENT = RivalSettings(moves_per_hour=0)


def restarted(life: Life) -> Life:
    """The first broker restarts between two passes; one of its bundles is back already."""
    life.started_s[A] = life.now_s + 5
    return life.spread(*range(10)).move(7, A).passes(10)


def silent_until_split(life: Life) -> Life:
    """A bundle is split, and one half is unloaded at once."""
    return life.leave(3).gain(100, 101, to=A).passes(2).move(101, C).passes(5)


def frozen(life: Life) -> Life:
    """A broker that was frozen reports an old list once more."""
    return life.passes(3, missing=[A]).gain(3, to=B).passes().leave(3, A).passes(5)


def unheard_for_two_minutes(life: Life) -> Life:
    life.now_s += 120
    return life.move(3, B).passes(4)


#: What happens → whether the brokers are extensible.
QUIET: dict[str, tuple[Callable[[Life], Life], dict[str, Any]]] = {
    "nothing": (lambda life: life, {}),
    "a broker shuts down and gives its bundles up in one sweep":
        (lambda life: life.move(0, B).move(1, B).passes().passes(4, gone=[A]), {}),
    "pulsar places the bundles of a dead broker":
        (lambda life: life.spread(*range(10)).passes(5, gone=[A]).passes(10), {}),
    "pulsar places bundles of a silent broker, which comes back":
        (lambda life: life.spread(*range(5)).passes(3, missing=[A]).passes(10), {}),
    "a broker reports an old list once more": (frozen, {}),
    "a broker restarts and says when": (restarted, {}),
    "a broker restarts and says nothing":
        (lambda life: life.spread(*range(10)).passes(10), {"started_s": {}}),
    "halves of a split bundle are unloaded at once": (silent_until_split, {}),
    "the first list of a broker has bundles that others lose later":
        (lambda life: life.gain(3, 4, to=D).passes().leave(3, A).passes(5), {}),
    "no pass came for two minutes": (unheard_for_two_minutes, {}),
    "an extensible broker loses many bundles at once":
        (lambda life: life.spread(*range(6)).passes().move(7, B).passes(5), {"noted": True}),
    "our move and those of a dead extensible broker":
        (lambda life: life.moved(3, A, B).move(21, A).passes(3, gone=[C]).passes(5),
         {"noted": True}),
    "our command without an outcome":
        (lambda life: life.command(3, A, B).move(3, B).command(14, B, A).move(14, C)
         .command(24, C, A).passes(35), {}),
    "our outcome comes late":
        (lambda life: life.command(3, A, B).move(3, B).passes(3)
         .outcome(3, "applied", A, B).passes(15), {}),
    "our destination was lost and repaired":
        (lambda life: life.command(3, A, B).move(3, C).passes().move(3, B).passes()
         .outcome(3, "applied", A, B).passes(10), {}),
    "our destination was lost":
        (lambda life: life.command(3, A, B).move(3, C).outcome(3, "applied", A, C).passes(10), {}),
    "our executor failed and has released the bundle":
        (lambda life: life.command(3, A, B).move(3, C).outcome(3, "failed", A, None).passes(10),
         {}),
    "our lists are old": (lambda life: life.command(3, A, B)
                          .outcome(3, "applied", A, B).passes(4), {}),
    "the outcome of an unknown command comes afterwards":
        (lambda life: life.move(3, B).passes(2).outcome(3, "applied", A, B), {}),
}  # fmt: skip
#: What happens, and the foreign moves that it is.
FOREIGN: dict[str, tuple[Callable[[Life], Life], list[tuple[int, str, str]], dict[str, Any]]] = {
    "another living broker has the bundle": (lambda life: life.move(3, B), [(3, A, B)], {}),
    "its old broker reports first":
        (lambda life: life.leave(3).passes().gain(3, to=B), [(3, A, B)], {}),
    "its new broker reports first":
        (lambda life: life.gain(3, to=B).passes().leave(3, A), [(3, A, B)], {}),
    "it was without a broker for minutes":
        (lambda life: life.leave(3).passes(12).gain(3, to=C), [(3, A, C)], {}),
    "a newcomer got what its old broker lost before":
        (lambda life: life.gain(to=D).move(3, D).passes(), [(3, A, D)], {}),
    "another extensible broker owns it":
        (lambda life: life.move(3, B), [(3, A, B)], {"noted": True}),
    "our command was refused": (lambda life: life.command(3, A, B).move(3, B).passes()
                                .outcome(3, "refused", None, None), [(3, A, B)], {}),
    "our command expired": (lambda life: life.command(3, A, B).move(3, B).passes()
                            .outcome(3, "expired", None, None), [(3, A, B)], {}),
    "it leaves where we put it":
        (lambda life: life.moved(3, A, B).passes(2).move(3, C), [(3, B, C)], {}),
    "it was taken back before a report showed it":
        (lambda life: life.command(3, A, B).outcome(3, "applied", A, B).passes(7), [(3, B, A)], {}),
    "a script empties a broker": (lambda life: life.spread(*range(10)),
                                  [(n, A, B if n % 2 else C) for n in range(10)],
                                  {"rivals": PATIENT}),
}  # fmt: skip


@pytest.mark.parametrize(("happens", "parts"), QUIET.values(), ids=QUIET)
def test_it_is_no_foreign_move(happens: Callable[[Life], Life], parts: dict[str, Any]) -> None:
    assert happens(three_brokers(**parts)).foreign == []


@pytest.mark.parametrize(("happens", "moves", "parts"), FOREIGN.values(), ids=FOREIGN)
def test_it_is_a_foreign_move(
    happens: Callable[[Life], Life], moves: list[tuple[int, str, str]], parts: dict[str, Any]
) -> None:
    assert sorted(happens(three_brokers(**parts)).passes(2).foreign) == moves


def test_only_a_move_of_what_we_had_moved_is_against_us() -> None:
    for life, against in ((three_brokers(), False), (three_brokers().moved(3, A, B), True)):
        life.passes(2).move(3, C).passes(2)
        assert life.store.get_cluster().rivals.moves[-1].against is against


def test_the_state_survives_in_bytes() -> None:
    life = three_brokers().command(14, B, A).leave(5).move(3, B).passes().move(4, B).passes()
    state = life.store.get_cluster()
    assert from_bytes(to_bytes(state)) == state
    assert state.rivals.suspects
    assert state.rivals.moves


class TestRests:
    def test_a_moved_bundle_rests_as_after_our_own_move_and_the_round_says_it(self) -> None:
        life = three_brokers(cpu={A: 95.0}, leader=C, shedding=True).move(13, A).passes(2)
        skip = life.skip("moved-by-others")
        assert len(skip.names) == 1
        assert f"Pulsar's own shedder is on at the leader {C}" in skip.text
        given = [event for event in life.events if getattr(event, "bundle", "") == skip.names[0]]
        assert given == []

    def test_without_a_cool_down_nothing_rests(self) -> None:
        life = three_brokers(cool_down_ms=0).move(13, A).passes(2)
        assert life.foreign == [(13, B, A)]
        assert all(skip.code != "moved-by-others" for skip in life.last.skips)


class TestYielding:
    def test_rounds_yield_above_the_rate_and_act_again_after_a_calm_time(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3, calm_ms=200_000))
        for number in (0, 1, 2):
            assert life.move(number, B).passes(2).state != "yielding"
        assert life.move(3, B).passes(2).state == "yielding"
        since = life.last.round
        life.passes(20)
        assert life.state != "yielding"
        yielding = [one for one in life.rounds if one.state and one.state.code == "yielding"]
        assert 8 <= len(yielding) <= 10
        assert yielding[0].round == since

    def test_while_they_yield_they_have_no_commands_and_say_why(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3), leader=C, shedding=False)
        life.move_all(10, 11, 12, 13, 14, to=C).passes(2)
        assert life.last.state is not None
        assert life.last.state.code == "yielding"
        assert f"Pulsar's own shedder is off at the leader {C}" in life.last.state.text
        assert f"the last one {PASS_S + 3} s ago" in life.last.state.text
        life.cpu = {A: 99.0}
        life.passes()
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
        life = three_brokers(rivals=PATIENT).move_all(*range(7), *range(10, 17), to=C).passes(4)
        assert len(life.foreign) > 10
        assert life.state != "yielding"

    def test_moves_against_ours_in_two_rounds_in_a_row_are_enough(self) -> None:
        life = three_brokers()
        life.moved(3, A, B).moved(4, A, B).passes(3).move(3, A).passes().move(4, A).passes()
        assert life.state != "yielding"
        assert (life.passes().state, life.foreign) == ("yielding", [(3, B, A), (4, B, A)])

    def test_they_yield_again_only_to_new_moves(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3, calm_ms=60_000))
        assert life.move_all(*range(4), to=B).passes(10).state != "yielding"
        assert life.move_all(*range(4, 8), to=B).passes(2).state == "yielding"

    def test_who_is_unknown_where_the_collector_does_not_say_it(self) -> None:
        life = three_brokers().move(3, B).passes(2)
        assert "the collector could not read at the leader" in life.skip("moved-by-others").text

    def test_a_clock_that_goes_back_does_not_end_it(self) -> None:
        life = three_brokers(rivals=RivalSettings(moves_per_hour=3))
        assert life.move_all(*range(4), to=B).passes(2).state == "yielding"
        life.now_s -= 90
        assert life.passes(6).state == "yielding"


def test_a_note_that_lists_a_bundle_twice_says_what_one_says_that_lists_it_once() -> None:
    here, there, stays = (f"t/ns/0x{n}0000000_0x{n + 1}0000000" for n in range(3))
    rivals = Rivals(watching_ms=0, left={there: Sighting(A, 5, False)})

    def after(times: int) -> Rivals:
        before, now = (here,) * times + (stays,), (stays,) + (there,) * times
        return learn_list(rivals, Listing(B, 9_000_000, before, now, 8_900_000, None))

    assert [one.move.bundle for one in after(1).suspects] == [there]
    assert after(2) == after(1)
