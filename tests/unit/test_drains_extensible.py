"""Drains of brokers with the extensible load manager: their reports list the busiest bundles only,
and they withdraw their figures when a bundle moves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strategies.settings import Mode
from tests.unit.test_drains import NAMES, PACE, draining, said
from tests.world.intents import drain
from tests.world.little_cluster import LittleCluster, spread_out


def extensible(
    bundles: int = 10, top: int = 3, *, notes: bool = True, **changes: Any
) -> LittleCluster:
    settings = replace(PACE, strategy="transfer", **changes)
    made = LittleCluster(spread_out(NAMES, bundles), settings, top=top, notes=notes)
    made.passes()
    return made


@pytest.mark.parametrize(
    ("mode", "withdraws"), [("fixed", False), ("parity", False), ("fixed", True)]
)
def test_brokers_that_report_their_busiest_bundles_only(mode: Mode, withdraws: bool) -> None:
    """The collector's notes list the others, also while figures are withdrawn."""
    made = extensible(mode=mode)
    made.withdraws = withdraws
    states = [said(draining(made).passes())] + [said(made.passes()) for _ in range(4)]
    assert [(one.state, one.left) for one in states] == [
        ("draining", 10),
        ("draining", 6),
        ("draining", 2),
        ("drained", 0),
        ("drained", 0),
    ]
    assert len(made.commands) == 10


def test_a_broker_without_figures_has_not_left_while_the_sweep_lists_it() -> None:
    made = extensible()
    made.withdraws = True
    draining(made).passes()
    made.silent = {"a:1"}
    status = said(made.passes())
    assert (status.state, status.left) == ("draining", 10)
    assert "it has withdrawn its figures" in status.text
    made.silent, made.down = set(), {"a:1"}
    status = said(made.passes())
    assert (status.state, status.text) == ("drained", "has left the cluster with 10 bundles")


def test_notes_that_are_late() -> None:
    """Owners are looked up in turn: the outcome is newer, and says where the bundle is."""
    made = extensible(top=0)
    made.notes = False
    states = [said(draining(made).passes())] + [said(made.passes()) for _ in range(3)]
    assert [one.left for one in states] == [10, 6, 2, 0]
    assert states[-1].state == "drained"
    assert len(made.commands) == 10
    made.notes = True
    made.passes(2)
    drained = made.store.get_cluster().intents.drains["a:1"]
    assert (drained.state, drained.gone) == ("drained", ())


def test_a_bundle_that_comes_back_from_a_broker_that_died_counts_again() -> None:
    """Pulsar places it on the draining broker before its owner is looked up, so no new note says
    so: the one from before the move lists it all along.
    """
    made = extensible(1, top=0)
    made.notes = False
    assert said(draining(made).passes(3)).state == "drained"
    (command,) = made.commands
    assert command.destination is not None

    made.move(command.bundle, command.destination, "a:1")
    made.down = {command.destination}
    states = [said(made.passes()) for _ in range(2)]
    assert [(one.state, one.left) for one in states] == [("draining", 1), ("drained", 0)]
    assert made.brokers["a:1"] == {}


def test_without_notes_no_broker_of_that_kind_is_called_drained() -> None:
    made = extensible(notes=False)
    status = said(draining(made).passes(9))
    assert status.state in ("draining", "drained")
    assert made.brokers["a:1"] == {}
    made.top = 0
    made.brokers["a:1"] = {"t/ns/0xff000000_0xff800000": 1.0}
    status = said(made.passes(2))
    assert status.state == "blocked"
    assert "[bundles-unknown]" in status.text


def test_a_drain_of_a_noted_broker_ends_by_itself_while_another_one_lasts() -> None:
    made = extensible(2, top=1)
    made.tell(drain(1, made.seconds, "a:1", until_ms=made.now_ms + 150_000))
    made.tell(drain(2, made.seconds, "b:1", together=True))
    assert [said(made.passes()).state for _ in range(3)] == ["draining", "drained", "done"]


def test_a_bundle_that_is_among_the_busiest_no_more_gets_no_second_command() -> None:
    """Its command names no destination, so a report that does not list it looks like a departure;
    but the report lists only some bundles.
    """
    made = extensible(5, top=2, placement="none")
    made.executor = lambda _: None
    draining(made).passes()
    assert len(made.commands) == 4
    made.brokers["a:1"] = dict(reversed(made.brokers["a:1"].items()))
    status = said(made.passes())
    assert len(made.commands) == 4
    assert status.text == "5 of 5 bundles are left, 4 on their way"
