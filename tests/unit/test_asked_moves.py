"""A move that a person asks for, from its record to its end, and what may come between."""

from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.model import OutcomeStatus
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings
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
