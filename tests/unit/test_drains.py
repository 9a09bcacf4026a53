"""A drain from its record to an empty broker, and what may come between."""

from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import OutcomeStatus, Round
from strategies.fold.engine import EngineSettings
from strategies.settings import DrainSettings, LimitSettings, Mode
from tests.world.intents import drain, id_of, of_roll, roll
from tests.world.little_cluster import LittleCluster, applies, spread_out

NAMES = ("a:1", "b:1", "c:1", "d:1")
PACE = EngineSettings(drains=DrainSettings(bundles_at_a_time=4))
#: Bundles that a broker got after its drain.
NEW = {"t/ns/0xff000000_0xff800000": 1.0}


def cluster(
    settings: EngineSettings = PACE,
    bundles: int = 10,
    brokers: dict[str, dict[str, float]] | None = None,
) -> LittleCluster:
    """After its first round. `brokers`: others than four with so many bundles each."""
    made = LittleCluster(brokers or spread_out(NAMES, bundles), settings)
    made.passes()
    return made


def draining(made: LittleCluster, broker: str = "a:1") -> LittleCluster:
    """The cluster after the record of a drain."""
    made.tell(drain(1, made.seconds + 5, broker))
    return made


def said(done: Round, number: int = 1) -> IntentStatus:
    """What a round says about the intent of record `number`."""
    (status,) = [one for one in done.intents if one.id == id_of(number)]
    return status


def states(made: LittleCluster, passes: int) -> list[tuple[str, int | None]]:
    """State of the drain and bundles left, in each of the next rounds."""
    found = [said(made.passes()) for _ in range(passes)]
    return [(one.state, one.left) for one in found]


EMPTIED = [("draining", 10), ("draining", 6), ("draining", 2), ("drained", 0), ("drained", 0)]


def test_a_broker_is_drained() -> None:
    made = draining(cluster())
    assert states(made, 2) == EMPTIED[:2]
    third = said(made.passes())
    assert (third.state, third.left, third.left_ms) == ("draining", 2, 30_000)
    assert third.text == "2 of 10 bundles are left, 2 on their way"
    assert states(made, 2) == EMPTIED[3:]
    assert made.brokers["a:1"] == {}
    assert len(made.commands) == 10
    assert {(one.code, one.action, one.source) for one in made.commands} == {
        ("drain", "transfer", "a:1")
    }
    assert made.commands[0].text.startswith("Ann drains a:1 (new disks); ")
    assert made.store.get_cluster().cooling == {}


def test_a_roll_of_one_broker() -> None:
    made = cluster()
    begun = roll(1, made.seconds + 5, "a:1", "b:1")
    made.tell(begun, of_roll(2, "drain", made.seconds + 6, begun, "a:1"))
    phases = [said(made.passes()).phases["a:1"] for _ in range(4)]
    assert phases == ["draining", "draining", "draining", "drained"]

    made.tell(of_roll(3, "restarting", made.seconds + 5, begun, "a:1"))
    made.down = {"a:1"}
    assert said(made.passes()).phases == {"a:1": "restarting", "b:1": "waiting"}
    made.down = set()
    made.brokers["a:1"] = dict(NEW)
    before = len(made.commands)
    assert said(made.passes()).phases["a:1"] == "restarting"
    assert len(made.commands) == before, "what it got meanwhile stays"
    made.tell(of_roll(4, "restarted", made.seconds + 5, begun, "a:1"))
    done = made.passes()
    assert said(done).phases == {"a:1": "restarted", "b:1": "waiting"}
    assert (said(done).record, said(done, 2).state) == (id_of(4), "done")


CLASSIC = ("threshold", "avg", "uniform", "overload")


@pytest.mark.parametrize(
    ("strategy", "mode"),
    [("steady", "fixed"), *((one, mode) for one in CLASSIC for mode in ("fixed", "parity"))],
)
def test_every_strategy_drains(strategy: str, mode: Mode) -> None:
    made = draining(cluster(replace(PACE, strategy=strategy, mode=mode)))
    assert said(made.passes(6)).state == "drained"
    assert {command.destination for command in made.commands} <= {"b:1", "c:1", "d:1"}


def test_without_a_placement_pulsar_places_the_bundles() -> None:
    made = draining(cluster(replace(PACE, strategy="threshold", placement="none")))
    made.passes()
    assert {(one.action, one.destination) for one in made.commands} == {("unload", None)}


def test_the_lightest_disturbance_goes_first() -> None:
    heavy, light = "t/ns/0x10000000_0x20000000", "t/ns/0x20000000_0x30000000"
    brokers = spread_out(NAMES, 2) | {"a:1": {heavy: 3.0, light: 0.5}}
    made = cluster(EngineSettings(drains=DrainSettings(bundles_at_a_time=1)), brokers=brokers)
    draining(made).passes(2)
    assert [one.bundle for one in made.commands] == [light, heavy]


@pytest.mark.parametrize(("limit", "at_a_time"), [(5.0, 2), (1.0, 1)])
def test_the_pace_by_throughput_lets_one_bundle_go(limit: float, at_a_time: int) -> None:
    """Of 2 MiB/s each: two within 5 MiB/s, and one even if the limit is lower than its traffic."""
    made = draining(cluster(EngineSettings(drains=DrainSettings(100, limit))))
    made.passes()
    assert len(made.commands) == at_a_time


@pytest.mark.parametrize("outcome", ["refused", "failed", "expired"])
def test_a_drain_whose_commands_are_not_carried_out_is_blocked_and_goes_on_when_they_are(
    outcome: OutcomeStatus,
) -> None:
    made = cluster()
    made.executor = lambda _: outcome
    status = said(draining(made).passes(2))
    assert status.state == "blocked"
    assert "has not carried out the last 4 commands: " in status.text
    assert len({(one.bundle, one.round) for one in made.commands}) == len(made.commands)
    made.executor = applies
    assert said(made.passes(9)).state == "drained"


def test_namespaces_that_stay_when_brokers_are_balanced_leave_a_drained_one() -> None:
    """docs/FIRST_CLUSTER.md excludes the namespace of our own topics."""
    brokers = spread_out(NAMES, 2)
    brokers["a:1"]["ops/rebalancer/0x00000000_0x80000000"] = 1.0
    limits = LimitSettings(excluded_namespaces="ops/rebalancer")
    made = draining(cluster(replace(PACE, limits=limits), brokers=brokers))
    status = said(made.passes(4))
    assert (status.state, status.left, status.total) == ("drained", 0, 3)
    assert not made.brokers["a:1"]


def test_a_broker_that_leaves_and_comes_back_stays_drained() -> None:
    made = draining(cluster())
    made.passes()
    made.down = {"a:1"}
    status = said(made.passes(2))
    assert (status.state, status.left) == ("drained", 0)
    assert "has left the cluster" in status.text
    made.down, made.brokers["a:1"] = set(), {}
    assert said(made.passes(2)).state == "drained"
    made.brokers["a:1"] = dict(NEW)
    assert states(made, 3) == [("draining", 1), ("drained", 0), ("drained", 0)]
    assert made.brokers["a:1"] == {}


def test_a_broker_that_falls_silent_after_its_drain_stays_drained() -> None:
    made = draining(cluster())
    assert states(made, 5) == EMPTIED
    made.silent = {"a:1"}
    made.passes(9)
    status = said(made.passes())
    assert (status.state, status.text) == ("drained", "has no fresh figures")


def test_a_split_bundle_leaves_as_its_parts() -> None:
    made = draining(cluster(bundles=1))
    made.executor = lambda _: "refused"
    made.passes()
    del made.brokers["a:1"][made.commands[0].bundle]
    made.brokers["a:1"] |= {"t/ns/0x80000000_0x80000001": 1.0, "t/ns/0x80000001_0x80000002": 1.0}
    made.executor = applies
    status = said(made.passes())
    assert (status.left, status.total) == (2, 2)
    assert said(made.passes(2)).state == "drained"


def test_a_bundle_on_its_way_to_the_broker_is_waited_for() -> None:
    """A command of before the drain: the broker is not drained until it has come and gone."""
    full = spread_out(["b:1"], 8, 9.0)["b:1"]
    made = LittleCluster({"a:1": {}, "b:1": full, "c:1": {}}, replace(PACE, strategy="threshold"))
    made.executor = lambda _: None
    made.passes(4)
    there = [one for one in made.commands if one.destination == "a:1"]
    assert there
    assert said(draining(made).passes()).state == "draining"
    for command in there:
        made.move(command.bundle, "b:1", "a:1")
    made.executor = applies
    assert said(made.passes(9)).state == "drained"
    assert made.brokers["a:1"] == {}


def test_a_bundle_without_clients_is_not_waited_for() -> None:
    """Its new owner loads no topic of it, so that no report lists it again."""
    idle = "t/idle/0x00000000_0xffffffff"
    made = cluster(EngineSettings(), brokers={**spread_out(NAMES, 3), "a:1": {idle: 0.0}})
    draining(made).passes()
    (command,) = [one for one in made.commands if one.source == "a:1"]
    assert command.destination is not None
    del made.brokers[command.destination][idle]
    assert idle in made.store.get_cluster().in_flight
    done = made.passes()
    assert idle not in made.store.get_cluster().in_flight
    assert said(done).state == "drained"
    assert [one.bundle for one in made.commands].count(idle) == 1


def test_a_bundle_that_comes_back_leaves_again() -> None:
    """Its destination dies before it has reported the bundle, and Pulsar chooses the old owner."""
    brokers = {"a:1": {"t/n/0x00000000_0xffffffff": 3.0}, "b:1": dict[str, float](), "c:1": {}}
    made = cluster(EngineSettings(), brokers=brokers)
    draining(made).passes()
    (first,) = made.commands
    assert first.destination is not None
    made.down.add(first.destination)
    made.passes()
    made.move(first.bundle, first.destination, "a:1")
    done = made.passes(2)
    assert [one.destination == first.destination for one in made.commands] == [True, False]
    assert said(done).state == "drained"


def test_a_drain_ends_by_itself() -> None:
    made = cluster()
    made.tell(drain(1, made.seconds, "a:1", until_ms=made.now_ms + 150_000))
    assert said(made.passes(2)).state == "draining"
    status = said(made.passes())
    assert (status.state, status.text) == ("cancelled", "its time has passed")
    assert not made.store.get_cluster().intents.drains


def test_a_halted_roll_moves_nothing() -> None:
    made = cluster()
    begun = roll(1, made.seconds, "a:1")
    made.tell(begun, of_roll(2, "drain", made.seconds, begun, "a:1"))
    made.passes()
    made.tell(of_roll(3, "halt", made.seconds + 1, begun))
    before = len(made.commands)
    done = made.passes(3)
    assert len(made.commands) == before
    assert (said(done).state, said(done, 2).state) == ("halted", "blocked")
    assert "[roll-halted]" in said(done, 2).text
    made.tell(of_roll(4, "resume", made.seconds + 1, begun))
    assert said(made.passes(4)).phases == {"a:1": "drained"}


@pytest.mark.heavy
def test_balancing_of_the_others_goes_on() -> None:
    """A hot broker sheds while another one is drained, and never to that one."""
    brokers = spread_out(NAMES, 12, 1.0)
    brokers["b:1"] = dict.fromkeys(brokers["b:1"], 6.0)
    made = cluster(replace(PACE, drains=DrainSettings(bundles_at_a_time=1)), brokers=brokers)
    draining(made).passes(12)
    assert {one.source for one in made.commands if one.code != "drain"} == {"b:1"}
    assert "a:1" not in {one.destination for one in made.commands}


@pytest.mark.heavy
def test_what_has_left_is_not_moved_again_and_is_no_move_of_steadyshedder() -> None:
    made = draining(cluster(bundles=20))
    done = made.passes(20)
    assert len(made.commands) == len({one.bundle for one in made.commands}) == 20
    assert said(done).state == "drained"
    memory = made.store.get_cluster().memory
    assert memory.moves == ()
    assert done.forecast is not None
    assert (done.forecast.useless_rounds, done.forecast.useless_moves) == (0, 0)


def extensible(
    bundles: int = 10, top: int = 3, *, notes: bool = True, **changes: Any
) -> LittleCluster:
    """Brokers whose reports list the busiest bundles only."""
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
    assert states(draining(made), 5) == EMPTIED
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
    assert states(draining(made), 4) == EMPTIED[:4]
    assert len(made.commands) == 10
    made.notes = True
    made.passes(2)
    drained = made.store.get_cluster().intents.drains["a:1"]
    assert (drained.state, drained.gone) == ("drained", ())


def test_a_bundle_that_comes_back_from_a_broker_that_died_counts_again() -> None:
    """The note from before the move lists it all along, so no new one says that it is back."""
    made = extensible(1, top=0)
    made.notes = False
    assert said(draining(made).passes(3)).state == "drained"
    (command,) = made.commands
    assert command.destination is not None
    made.move(command.bundle, command.destination, "a:1")
    made.down = {command.destination}
    assert states(made, 2) == [("draining", 1), ("drained", 0)]
    assert made.brokers["a:1"] == {}


def test_without_notes_no_broker_of_that_kind_is_called_drained() -> None:
    made = extensible(notes=False)
    status = said(draining(made).passes(9))
    assert status.state in ("draining", "drained")
    assert made.brokers["a:1"] == {}
    made.top = 0
    made.brokers["a:1"] = dict(NEW)
    status = said(made.passes(2))
    assert status.state == "blocked"
    assert "[bundles-unknown]" in status.text


def test_a_drain_of_a_noted_broker_ends_by_itself_while_another_one_lasts() -> None:
    made = extensible(2, top=1)
    made.tell(drain(1, made.seconds, "a:1", until_ms=made.now_ms + 150_000))
    made.tell(drain(2, made.seconds, "b:1", together=True))
    assert [said(made.passes()).state for _ in range(3)] == ["draining", "drained", "done"]


def test_a_bundle_that_is_among_the_busiest_no_more_gets_no_second_command() -> None:
    """Its command names no destination, so a report without it looks like a departure."""
    made = extensible(5, top=2, placement="none")
    made.executor = lambda _: None
    draining(made).passes()
    assert len(made.commands) == 4
    made.brokers["a:1"] = dict(reversed(made.brokers["a:1"].items()))
    status = said(made.passes())
    assert len(made.commands) == 4
    assert status.text == "5 of 5 bundles are left, 4 on their way"
