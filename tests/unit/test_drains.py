"""A drain from its record to an empty broker, and what may come between."""

from __future__ import annotations

from strategies.engine import EngineSettings
from strategies.intents.contract import IntentStatus
from strategies.intents.settings import DrainSettings
from strategies.model import Round
from tests.unit.intent_builders import drain, id_of, of_roll, roll, undrain
from tests.unit.little_cluster import LittleCluster, spread_out

NAMES = ("a:1", "b:1", "c:1", "d:1")
PACE = EngineSettings(drains=DrainSettings(bundles_at_a_time=4))


def cluster(settings: EngineSettings = PACE, bundles: int = 10) -> LittleCluster:
    made = LittleCluster(spread_out(NAMES, bundles), settings)
    made.passes()
    return made


def said(done: Round, number: int = 1) -> IntentStatus:
    """What a round says about the intent of record `number`."""
    (status,) = [one for one in done.intents if one.id == id_of(number)]
    return status


def test_a_broker_is_drained() -> None:
    made = cluster()
    made.tell(drain(1, made.seconds + 5, "a:1"))
    states = [said(made.passes()) for _ in range(5)]

    assert [(one.state, one.left) for one in states] == [
        ("draining", 10),
        ("draining", 6),
        ("draining", 2),
        ("drained", 0),
        ("drained", 0),
    ]
    assert made.brokers["a:1"] == {}
    assert len(made.commands) == 10
    assert {(one.code, one.action, one.source) for one in made.commands} == {
        ("drain", "transfer", "a:1")
    }
    assert states[2].left_ms == 30_000
    assert states[2].text == "2 of 10 bundles are left, 2 on their way"
    assert made.commands[0].text.startswith("Ann drains a:1 (new disks); ")


def test_a_round_leaves_a_draining_broker_out() -> None:
    made = cluster()
    made.tell(drain(1, made.seconds + 5, "a:1"))
    made.passes(4)
    done = made.passes()

    assert sorted(done.usage) == sorted(NAMES)
    assert done.spread.range < 0.1, "the empty broker is no part of it"
    (skip,) = [one for one in done.skips if one.code == "being-drained"]
    assert skip.names == ("a:1",)
    assert done.state is not None
    assert done.state.code == "balanced"
    assert not [one for one in made.commands if one.destination == "a:1"]


def test_after_undrain_the_broker_takes_bundles_again() -> None:
    made = cluster()
    made.tell(drain(1, made.seconds + 5, "a:1"))
    made.passes(5)
    made.tell(undrain(2, made.seconds + 5, "a:1"))
    assert said(made.passes()).state == "done"
    made.passes(60)
    assert len(made.brokers["a:1"]) > 4


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
    made.brokers["a:1"] = {"t/ns/0xff000000_0xff800000": 1.0}
    before = len(made.commands)
    assert said(made.passes()).phases["a:1"] == "restarting"
    assert len(made.commands) == before, "what it got meanwhile stays"
    made.tell(of_roll(4, "restarted", made.seconds + 5, begun, "a:1"))
    done = made.passes()
    assert said(done).phases == {"a:1": "restarted", "b:1": "waiting"}
    assert (said(done).record, said(done, 2).state) == (id_of(4), "done")
