"""Random but legal lives of a cluster, for property tests of the fold, each from a seed; answers to
commands fit what came before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import get_args

import numpy as np

from sinks.wire.record_decoding import Position, pack_origin
from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore, StateStore
from strategies.cluster.intent_records_and_states import Intent, IntentAction
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import DrainSettings, RoundSettings
from tests.properties.legal import EAGER, MODES
from tests.world.intents import id_of
from tests.world.telemetry import T0, bundle

#: Short times, so that a story of some dozen records sees cool-downs, expiry, staleness and a
#: recovering clock.
ROUNDS = RoundSettings(
    interval_ms=10_000,
    lateness_ms=3_000,
    stale_after_ms=60_000,
    max_clock_jump_ms=100_000,
    clock_recovery_ms=120_000,
    cool_down_ms=90_000,
    command_ttl_ms=25_000,
)
#: Nearly every round of these commands something.
EAGER_ENGINES: tuple[EngineSettings, ...] = tuple(
    EngineSettings(strategy, mode, rules, round=ROUNDS, drains=DrainSettings(2))
    for strategy, rules in EAGER.items()
    for mode in MODES
)

BROKERS = ("a:1", "b:1", "größe-ß:8080", "d:1")
BUNDLES = (
    *(bundle(i) for i in range(6)),
    "公/ns/0x10000000_0x20000000",
    "pulsar/system/0x00000000_0xffffffff",
)
#: Idle, ordinary and absurd, but all of them legal.
FIGURES = (0.0, 0.001, 3.0, 3.0, 40.0, 40.0, 55.5, 70.0, 99.5, 250.0, 1e7, 1e9, 2.0**63)
_ACTIONS: tuple[IntentAction, ...] = ("drain", "drain", *get_args(IntentAction))
_STATUSES: tuple[model.OutcomeStatus, ...] = (
    "applied",
    "already-done",
    "refused",
    "failed",
    "expired",
    "dry-run",
)


@dataclass(frozen=True, slots=True)
class Move:
    """A record to be, but for what depends on the commands so far: `about` counts back from the
    newest command.
    """

    record: model.TelemetryRecord
    about: int | None = None


@dataclass(slots=True)
class Story:
    """What happened: every record that was told, and the events of each."""

    records: list[model.TelemetryRecord] = field(default_factory=list)
    told: list[list[model.Event]] = field(default_factory=list)

    @property
    def events(self) -> list[model.Event]:
        return [event for events in self.told for event in events]


def live(settings: EngineSettings, moves: Sequence[Move]) -> Story:
    """Folds the moves one by one; outcomes answer the commands that were given by then."""
    engine, store, story = Engine(settings), InMemoryStore(), Story()
    given: list[model.Command] = []
    for number, move in enumerate(moves):
        record = replace(
            _resolved(move, given), origin=pack_origin(Position("t", 0, number), b"{}")
        )
        events = engine.fold(record, store)
        given += [event for event in events if isinstance(event, model.Command)]
        story.records.append(record)
        story.told.append(events)
    return story


def fold_again(
    settings: EngineSettings, records: Sequence[model.TelemetryRecord], store: StateStore
) -> list[list[model.Event]]:
    """The events of each record, with a new engine for every one of them."""
    return [Engine(settings).fold(record, store) for record in records]


def _resolved(move: Move, given: Sequence[model.Command]) -> model.TelemetryRecord:
    if move.about is None or not isinstance(move.record, model.OutcomeReport) or not given:
        return move.record
    command = given[-1 - move.about % len(given)]
    return replace(
        move.record,
        outcome=replace(move.record.outcome, command_id=command.id, bundle=command.bundle),
    )


def with_intents(seed: int, count: int) -> list[Move]:
    """A life of a cluster in which people and the collector say something now and then."""
    rng, found, rolls = Random(seed), list[Move](), [id_of(0)]
    for number, move in enumerate(moves(seed, count)):
        found.append(move)
        if rng.random() < 0.25:
            found.append(Move(_intent(rng, move.record.ts, number, rolls)))
        if rng.random() < 0.1:
            names = tuple(rng.sample(BUNDLES, rng.randrange(6)))
            found.append(Move(model.Owned("c", rng.choice(BROKERS), move.record.ts, names)))
    return found


def _intent(rng: Random, ts: int, number: int, rolls: list[str]) -> Intent:
    action = rng.choice(_ACTIONS)
    id_ = id_of(number if rng.random() < 0.9 else number // 2)
    of_roll = action in ("restarting", "restarted", "halt", "resume", "end")
    named = action in ("drain", "undrain", "restarting", "restarted")
    by_hand = action in ("move", "split")
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
        rng.choice(BROKERS) if named or (by_hand and rng.random() < 0.2) else None,
        tuple(rng.sample(BROKERS, rng.randrange(1, 4))) if action == "roll" else (),
        about,
        ts + rng.choice((1_000, 90_000)) if action == "drain" and rng.random() < 0.2 else None,
        rng.random() < 0.5,
        rng.choice((1, 1, 2)),
        rng.choice(BUNDLES) if by_hand else None,
        "topic_count_equally_divide" if action == "split" and rng.random() < 0.3 else None,
        moves_children=by_hand and rng.random() < 0.7,
    )


def moves(seed: int, count: int, *, wild_clocks: bool = True) -> list[Move]:
    """A life of one cluster. Time mostly goes on; with `wild_clocks` some records come from far
    away in time.
    """
    rng, now, told = Random(seed), T0, []
    for _ in range(count):
        now += rng.choice((0, 1, 700, 2_000, 5_000, 20_000))
        ts = now + rng.choice((0, 0, 0, 0, -1, -3_000, -40_000, 30_000))
        if wild_clocks and rng.random() < 0.2:
            ts += rng.choice(
                (10**7, 10**7 + rng.randrange(10**6), -(10**7), 10**12, -ts, 99_000, 101_000)
            )
        told.append(_move(rng, ts))
    return told


def _move(rng: Random, ts: int) -> Move:
    kinds = (
        ("report",) * 8
        + ("sweep",) * 3
        + ("outcome",) * 3
        + ("figures", "bundles", "tombstone", "policies", "note")
    )
    kind, broker = rng.choice(kinds), rng.choice(BROKERS)
    match kind:
        case "sweep":
            return Move(_sweep(rng, ts))
        case "outcome":
            owner = rng.choice((None, *BROKERS, "elsewhere:1"))
            outcome = model.Outcome(
                "unknown", "c", rng.choice(BUNDLES), rng.choice(_STATUSES), None, None, owner, 3, ts
            )
            return Move(model.OutcomeReport("c", ts, outcome), rng.choice((None, 0, 0, 1, 2, 5)))
        case "tombstone":
            return Move(model.Tombstone("c", broker, ts))
        case "policies":
            return Move(model.Policies("c", ts, '{"größe":1}'))
        case "note":
            return Move(model.Note("c", ts))
        case _:
            return Move(
                _report(rng, broker, ts, figures=kind != "bundles", bundles=kind != "figures")
            )


def _sweep(rng: Random, ts: int) -> model.Sweep:
    answers = {
        broker: rng.choice(("answers", "answers", "missing", "unlisted")) for broker in BROKERS
    }
    listed = tuple(broker for broker, answer in answers.items() if answer == "answers")
    return model.Sweep(
        "c",
        ts,
        7,
        listed,
        {broker: "no answer" for broker, answer in answers.items() if answer == "missing"},
        answering=tuple(
            broker
            for broker, answer in answers.items()
            if answer == "missing" and rng.random() < 0.3
        ),
        leader=rng.choice((None, *BROKERS)),
        shedding=rng.choice((None, False, True)),
    )


def _report(rng: Random, broker: str, ts: int, *, figures: bool, bundles: bool) -> model.LoadReport:
    names = tuple(rng.sample(BUNDLES, rng.randrange(6)))
    loads = [rng.choice(FIGURES) for _ in names]
    cpu = rng.choice(
        (
            model.Resource(rng.choice(FIGURES), rng.choice((100.0, 1e-6, 2.0**63))),
            model.Resource(rng.choice(FIGURES), 100.0),
            model.Resource(-1, -1),
        )
    )
    traffic = np.array([[load / 1024, load / 2048, load, load / 2] for load in loads]).reshape(
        -1, 4
    )
    totals = model.Traffic(*traffic.sum(axis=0).tolist())
    ones = np.ones(len(names), dtype=np.int64)
    said = model.Figures(
        cpu=cpu,
        bandwidth_out=model.Resource(totals.msg_throughput, 5e6),
        traffic=totals,
        bundle_count=len(names),
    )
    if (
        not bundles
    ):  # the extensible load manager's reports of figures have averages of the broker's own
        said = replace(
            said,
            usage_average=rng.choice(FIGURES),
            throughput_average=rng.choice(FIGURES),
            updated_at_ms=max(0, ts - 3_000),
        )
    stats = model.BundleStats(names, traffic, ones, ones)
    return model.LoadReport(
        "c",
        broker,
        ts,
        said if figures else None,
        stats if bundles else None,
        f"{cpu} {names} {loads}",
    )
