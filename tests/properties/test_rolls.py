"""What must hold of rolls and drains in random lives of a cluster, whatever fails meanwhile.

A life that breaks a promise is named by its seed; `RollLife.of(seed).live(MINUTES)` repeats it.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from statistics import fmean

import pytest

from benchmarks.uncertified import UNCERTIFIED
from sinks.wire.event_to_topic_rows import event_row
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Event, Rejection
from strategies.cluster.packed_records import pack_record, unpack_record
from strategies.fold.engine import Engine, EngineSettings
from strategies.roll.roll_state_and_evidence import RollRules
from streaming.state.state_to_bytes import to_bytes
from tests.properties.roll_draws import Faults, ModelledBroker
from tests.properties.roll_lives import RollLife
from tests.properties.roll_promises import RollPromises
from tests.world.telemetry import bundle, commands

#: A person cancels a roll that has not ended by then.
MINUTES = 40
#: Lives of `make check`, and all of them, in parts for several processes.
QUICK, ALL, PARTS = 40, 1_000, 20


@cache
def lived(seed: int) -> RollLife:
    return RollLife.of(seed).live(MINUTES)


def broken(life: RollLife) -> list[str]:
    """The promises that a life breaks."""
    promises = RollPromises(life.settings)
    for one in life.rounds:
        for record in one.records:
            promises.told(record)
        promises.round(one.round, commands(one.events))
    return [*life.broken, *promises.broken]


def published(events: Sequence[Event]) -> list[bytes]:
    """Of rejections their sentence: records of a life never were bytes."""
    return [
        one.text.encode() if isinstance(one, Rejection) else event_row(one).value for one in events
    ]


def replayed(life: RollLife) -> Iterator[bytes | dict[str, bytes]]:
    """What a fresh engine publishes of the recorded telemetry, and the state after it."""
    engine, store = Engine(life.settings), InMemoryStore()
    for one in life.rounds:
        for record in one.records:
            yield from published(engine.fold(unpack_record(pack_record(record)), store))
    yield to_bytes(store.get_cluster())


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(QUICK))
def test_a_roll_keeps_its_promises(seed: int) -> None:
    assert broken(lived(seed)) == []


@pytest.mark.lab
@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_rolls_keep_their_promises(part: int) -> None:
    kept: dict[int, list[str]] = {}
    for seed in range(QUICK + part, ALL, PARTS):
        life = RollLife.of(seed).live(MINUTES)
        found = broken(life)
        if found:
            kept[seed] = found[:3]
    assert kept == {}


def undisturbed(seed: int) -> RollLife:
    """A roll without faults that evens out the load at its end, by the default strategy."""
    chance = Random(seed)
    life = RollLife(
        seed, EngineSettings(shedders=UNCERTIFIED), Faults(slow_s=60), RollRules(), chance
    )
    names = [f"b{number}:1" for number in range(chance.randint(3, 6))]
    life.brokers = {name: ModelledBroker(1.0) for name in names}
    for number in range(8 * len(names)):
        life.traffic[bundle(number)] = chance.uniform(0.5, 1.5)
        life.owners[bundle(number)] = names[number % len(names)]
    return life.live(240)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.lab) for part in (1, 2, 3))]
)
def test_a_hundred_rolls_end_balanced_or_say_why_they_cannot_be(part: int) -> None:
    """The broker that was restarted last is empty then: it has to get bundles that the roll itself
    has moved within the cool-down.
    """
    for seed in range(part, 100, 4):
        last = undisturbed(seed).rounds[-1].round
        (roll,) = [one for one in last.intents if one.action == "roll"]
        assert last.state is not None
        assert roll.state == "done"
        assert ("the load is not even" in roll.text) is (last.state.code != "balanced"), seed
        assert min(last.usage.values()) > 0.5 * fmean(last.usage.values()), (seed, last.usage)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(0, QUICK, 2))
def test_a_replay_of_a_recorded_roll_gives_the_same_bytes(seed: int) -> None:
    life = lived(seed)
    live = [value for one in life.rounds for value in published(one.events)]
    assert [*replayed(life)] == [*live, to_bytes(life.store.get_cluster())]
