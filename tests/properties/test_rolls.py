"""What must hold of rolls and drains in random lives of a cluster, whatever fails meanwhile.

A life that breaks a promise is named by its seed; `RollLife.of(seed).live(MINUTES)` repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from random import Random
from statistics import fmean

import pytest

from benchmarks.uncertified import UNCERTIFIED
from sinks.wire.encoding import encode_command, encode_round
from strategies.cluster.drain_settings import DrainSettings
from strategies.cluster.intent_contract import Intent
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.model import Command, Event, Rejection, Round
from strategies.cluster.packing import pack_record, unpack_record
from strategies.cluster.store import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from strategies.roll.view import RollRules
from streaming.state.cluster_bytes import to_bytes
from tests.properties.roll_draws import Faults
from tests.properties.roll_lives import Decided, ModelledBroker, RollLife
from tests.properties.roll_promises import RollPromises

#: A person cancels a roll that has not ended by then.
MINUTES = 40
#: Lives of `make check`, and all of them, in parts for several processes.
QUICK, ALL, PARTS = 40, 1_000, 20


@cache
def lived(seed: int) -> RollLife:
    return RollLife.of(seed).live(MINUTES)


def broken(life: RollLife, settings: EngineSettings | None = None) -> list[str]:
    """The promises that a life breaks. `settings`: those that it should have had."""
    promises = RollPromises(settings or life.settings)
    for one in life.rounds:
        for record in one.records:
            promises.told(record)
        promises.round(one.round, one.commands)
    return [*life.broken, *promises.broken]


def published(event: Event) -> bytes:
    match event:
        case Command():
            return encode_command(event)
        case Round():
            return encode_round(event)
        case Rejection():
            return f"{event.code} {event.text}".encode()


def replayed(life: RollLife) -> Iterator[bytes | dict[str, bytes]]:
    """What a fresh engine publishes of the recorded telemetry, and the state after it."""
    engine, store = Engine(life.settings), InMemoryStore()
    for one in life.rounds:
        for record in one.records:
            again = unpack_record(pack_record(record))
            yield from map(published, engine.fold(again, store))
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
        bundle = f"t/ns/0x{number << 24:08x}_0x{(number + 1) << 24:08x}"
        life.traffic[bundle] = chance.uniform(0.5, 1.5)
        life.owners[bundle] = names[number % len(names)]
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
    live = [published(event) for one in life.rounds for event in one.events]
    assert [*replayed(life)] == [*live, to_bytes(life.store.get_cluster())]


@pytest.mark.heavy
def test_the_lives_are_worth_looking_at() -> None:
    """Guards the other tests: many rolls are done, others end for many reasons."""
    lives = [lived(seed) for seed in range(QUICK)]
    ends = Counter(one.state for life in lives for one in life.rounds[-1].round.intents)
    assert ends["done"] > QUICK // 3
    assert ends["cancelled"] > 3
    states = Counter(
        one.state for life in lives for each in life.rounds for one in each.round.intents
    )
    assert {"draining", "drained", "blocked", "halted", "refused"} <= {*states}
    moves = [one for life in lives for each in life.rounds for one in each.commands]
    assert sum(one.code == "drain" for one in moves) > 100
    assert sum(one.code != "drain" for one in moves) > 20
    assert sum(len(life.restarts) for life in lives) > QUICK
    records = Counter(
        record.action
        for life in lives
        for each in life.rounds
        for record in each.records
        if isinstance(record, Intent)
    )
    assert records["resume"] > 10
    assert records["halt"] > 5


def to_draining_brokers(one: Decided) -> Decided:
    draining = [each.broker for each in one.round.intents if each.state == "draining"]
    changed = (replace(each, destination=draining[0]) for each in one.commands if draining)
    return replace(one, commands=tuple(changed))


def without_codes(one: Decided) -> Decided:
    said = (replace(each, text=each.text.partition("[")[0]) for each in one.round.intents)
    return replace(one, round=replace(one.round, intents=tuple(said)))


def one_at_a_time(one: Decided) -> Decided:
    alone = (
        replace(record, together=False, max_unavailable=1) if isinstance(record, Intent) else record
        for record in one.records
    )
    return replace(one, records=tuple(alone))


def going_back(one: Decided) -> Decided:
    said = (
        replace(each, phases=dict.fromkeys(each.phases, "waiting")) if one.round.round % 2 else each
        for each in one.round.intents
    )
    return replace(one, round=replace(one.round, intents=tuple(said)))


def never_fewer(one: Decided) -> Decided:
    said = (
        replace(each, state="draining", left=9) if each.state in ("drained", "blocked") else each
        for each in one.round.intents
    )
    return replace(one, round=replace(one.round, intents=tuple(said)))


def too_early(one: Decided) -> Decided:
    said = (
        replace(each, state="drained") if each.state == "draining" else each
        for each in one.round.intents
    )
    return replace(one, round=replace(one.round, intents=tuple(said)))


def without_resumes(one: Decided) -> Decided:
    kept = (
        record
        for record in one.records
        if not isinstance(record, Intent) or record.action != "resume"
    )
    return replace(one, records=tuple(kept))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("spoilt", "complaint"),
    [
        (to_draining_brokers, "which is being drained"),
        (without_codes, "is blocked without a code"),
        (one_at_a_time, "without being asked together"),
        (one_at_a_time, "and may 1 at a time"),
        (going_back, "was restarted, and is waiting"),
        (never_fewer, "for more than"),
        (too_early, "is called drained"),
        (without_resumes, "after a record was refused"),
    ],
)
def test_a_spoilt_life_breaks_a_promise(
    spoilt: Callable[[Decided], Decided], complaint: str
) -> None:
    """Guards the promises: each of them can be broken."""
    found = [
        said
        for seed in range(QUICK)
        for life in [lived(seed)]
        for said in broken(replace(life, rounds=[spoilt(one) for one in life.rounds]))
    ]
    assert any(complaint in said for said in found)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("tighter", "complaint"),
    [
        ({"limits": LimitSettings(moves_per_round=1)}, "moves in one round; the limit is 1"),
        ({"limits": LimitSettings(moves_per_hour=2)}, "moves within an hour; the limit is 2"),
        ({"limits": LimitSettings(moved_mib_per_round=0.1)}, "MiB/s in one round"),
        ({"limits": LimitSettings(windows="03:00-04:00")}, "moves outside 03:00-04:00"),
        ({"limits": LimitSettings(excluded_namespaces="t/ns")}, "to an excluded namespace"),
        ({"drains": DrainSettings(1)}, "bundles on their way; the limit is 1"),
        ({"drains": DrainSettings(10, 0.1)}, "MiB/s on their way; the limit is 0.1"),
    ],
)
def test_tighter_limits_than_a_life_had_are_broken(
    tighter: dict[str, LimitSettings | DrainSettings], complaint: str
) -> None:
    found = [
        said
        for seed in range(QUICK)
        for life in [lived(seed)]
        for said in broken(life, replace(life.settings, **tighter))  # type: ignore[arg-type]
    ]
    assert any(complaint in said for said in found)
