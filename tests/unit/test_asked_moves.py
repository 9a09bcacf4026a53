"""A move that a person asks for, from its record to its end, and what may come between."""

from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.model import OutcomeStatus
from strategies.fold.engine import EngineSettings
from strategies.settings import DrainSettings, LimitSettings
from tests.unit.test_drains import NAMES, said
from tests.world.intents import drain, intent
from tests.world.little_cluster import LittleCluster, spread_out

BUNDLE = next(iter(spread_out(NAMES, 4)["a:1"]))


def asked(
    to: str | None = "b:1", bundle: str = BUNDLE, settings: EngineSettings = EngineSettings()
) -> LittleCluster:
    """Four brokers with four bundles each, after the record of a move."""
    made = LittleCluster(spread_out(NAMES, 4), settings)
    made.passes()
    made.tell(intent(1, "move", made.seconds + 5, to, bundle=bundle))
    return made


@pytest.mark.parametrize("to", ["b:1", None])
def test_a_bundle_moves_and_stays_where_a_person_wants_it(to: str | None) -> None:
    made = asked(to)

    first = said(made.passes())
    done = said(made.passes(10))

    (command,) = made.commands
    assert (command.bundle, command.source, command.code) == (BUNDLE, "a:1", "by-hand")
    assert to in (None, command.destination)
    assert "Ann asked for it (new disks)" in command.text
    assert (first.state, done.state, done.bundle) == ("moving", "done", BUNDLE)
    assert BUNDLE in made.brokers[command.destination or ""]


@pytest.mark.parametrize(
    ("to", "bundle", "code"),
    [
        ("b:1", "t/ns/0xfe000000_0xff000000", "unknown-bundle"),
        ("e:1", BUNDLE, "unknown-broker"),
        ("d:1", BUNDLE, "being-drained"),
        ("b:1", "pulsar/a:1/0x00000000_0xffffffff", "system-bundle"),
    ],
)
def test_a_move_that_cannot_be_is_refused_with_the_reason(to: str, bundle: str, code: str) -> None:
    made = LittleCluster(spread_out(NAMES, 4))
    made.passes()
    made.tell(drain(2, made.seconds + 1, "d:1"))
    made.tell(intent(1, "move", made.seconds + 5, to, bundle=bundle))

    first = said(made.passes())
    last = said(made.passes(16))

    assert f"[{code}]" in first.text
    assert (first.state, last.state) in (("blocked", "cancelled"), ("refused", "refused"))


def test_no_round_moves_it_back_while_it_rests() -> None:
    """The strategy evens out what the move has made uneven, with other bundles."""
    settings = EngineSettings(strategy="threshold")
    made = asked("b:1", settings=settings)
    made.brokers["a:1"][BUNDLE] = 12.0
    made.brokers["b:1"] = dict.fromkeys(made.brokers["b:1"], 12.0)

    for number in range(29):
        made.idle = 5.0 + number % 2  # averages take up what changes
        made.passes()

    (first, *others) = made.commands
    assert (first.bundle, first.code) == (BUNDLE, "by-hand")
    assert others
    assert BUNDLE not in {one.bundle for one in others}
    assert BUNDLE in made.brokers["b:1"]


def test_what_waits_for_its_turn_is_not_given_up() -> None:
    drains = DrainSettings(bundles_at_a_time=1)
    made = asked(settings=replace(EngineSettings(), drains=drains))
    made.executor = lambda _: None  # each command takes up its place until it expires
    for number, other in enumerate(made.brokers["c:1"], 2):
        made.tell(intent(number, "move", made.seconds + 5 + number, "b:1", bundle=other))

    last = made.passes(18).intents[-1]

    assert (last.state, "[waits-for-drain]" in last.text) == ("blocked", True)


def test_a_bundle_that_is_there_already_does_not_move() -> None:
    made = asked("a:1")

    assert (said(made.passes()).state, made.commands) == ("done", [])


@pytest.mark.parametrize("status", ["refused", "failed", "expired", "dry-run"])
def test_an_executor_that_does_not_move_it_ends_it(status: OutcomeStatus) -> None:
    made = asked()
    made.executor = lambda _: status
    made.passes()

    ended = said(made.passes())

    assert (ended.state, len(made.commands)) == ("cancelled", 1)
    assert ended.advice


def test_limits_hold_it_back_and_the_next_hour_lets_it_go() -> None:
    limits = LimitSettings(moves_per_hour=1)
    made = asked(settings=replace(EngineSettings(), limits=limits))
    other = next(iter(made.brokers["c:1"]))
    made.tell(intent(2, "move", made.seconds + 6, "b:1", bundle=other))

    done = made.passes(2)

    states: dict[str, Any] = {one.bundle or "": one.state for one in done.intents}
    assert states == {BUNDLE: "done", other: "blocked"}


def test_a_drain_that_was_asked_before_leaves_it_the_only_move_of_the_hour() -> None:
    settings = replace(EngineSettings(), limits=LimitSettings(moves_per_hour=1))
    made = LittleCluster(spread_out(NAMES, 4), settings)
    made.passes()
    made.tell(drain(2, made.seconds + 5, "c:1"))
    made.tell(intent(1, "move", made.seconds + 6, "b:1", bundle=BUNDLE))

    made.passes(2)

    assert [(one.bundle, one.code) for one in made.commands] == [(BUNDLE, "by-hand")]
