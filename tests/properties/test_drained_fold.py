"""Properties of the fold with intents between the other records, in any order and repeated."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from strategies.cluster.drain_settings import DrainSettings
from strategies.cluster.intent_contract import Intent, IntentAction
from strategies.cluster.limit_settings import LimitSettings
from strategies.cluster.model import Event, Owned
from strategies.cluster.packing import pack_record, unpack_record
from strategies.cluster.store import InMemoryStore
from strategies.fold.engine import Engine, EngineSettings
from tests.properties.costly import costly
from tests.properties.legal import seeds
from tests.properties.lives import BROKERS, BUNDLES, EAGER_ENGINES, Move, fold_again, live, moves
from tests.properties.test_fold import PROMISES, ByteStore, published
from tests.world.intents import id_of

ENGINES = tuple(
    replace(one, drains=DrainSettings(2), limits=LimitSettings(moves_per_round=3))
    for one in EAGER_ENGINES
)
_ACTIONS: tuple[IntentAction, ...] = ("drain", "drain", *get_args(IntentAction))


def with_intents(seed: int, count: int) -> list[Move]:
    """A life of a cluster in which people and the collector say something now and then."""
    rng, found, rolls = Random(seed), list[Move](), [id_of(0)]
    for number, move in enumerate(moves(seed, count)):
        found.append(move)
        if rng.random() < 0.25:
            found.append(Move(_intent(rng, move.record.ts, number, rolls)))
        if rng.random() < 0.1:
            names = tuple(rng.sample(BUNDLES, rng.randrange(6)))
            found.append(Move(Owned("c", rng.choice(BROKERS), move.record.ts, names)))
    return found


def _intent(rng: Random, ts: int, number: int, rolls: list[str]) -> Intent:
    action = rng.choice(_ACTIONS)
    id_ = id_of(number if rng.random() < 0.9 else number // 2)
    of_roll = action in ("restarting", "restarted", "halt", "resume", "end")
    named = action in ("drain", "undrain", "restarting", "restarted")
    about = rng.choice(rolls) if of_roll or (named and rng.random() < 0.4) else None
    if action == "roll":
        rolls.append(id_)
    return Intent(
        "c",
        ts + rng.choice((0, 0, 5_000, -5_000, 10**7)),
        id_,
        action,
        "Zoë",
        "größer",
        rng.choice(BROKERS) if named else None,
        tuple(rng.sample(BROKERS, rng.randrange(1, 4))) if action == "roll" else (),
        about,
        ts + rng.choice((1_000, 90_000)) if action == "drain" and rng.random() < 0.2 else None,
        rng.random() < 0.5,
        rng.choice((1, 1, 2)),
    )


@pytest.mark.heavy
@costly
@given(st.sampled_from(ENGINES), seeds, st.integers(0, 120))
def test_intents_break_no_promise_of_the_fold_whatever_their_batches_and_repetitions(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    """Though the state goes through bytes between any two records."""
    story = live(chosen, with_intents(seed, count))
    for promise in PROMISES:
        promise(story.events)
    told = [published(events) for events in story.told]
    packed = [unpack_record(pack_record(record)) for record in story.records]
    assert [published(events) for events in fold_again(chosen, packed, ByteStore())] == told
    store, again = InMemoryStore(), list[Event]()
    for record in story.records:
        again += Engine(chosen).fold(record, store)
        if isinstance(record, Intent) and record.id in store.get_cluster().intents.seen:
            event(record.action)
            assert Engine(chosen).fold(record, store) == []
    assert published(again) == [row for some in told for row in some]
