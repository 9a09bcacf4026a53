"""Whatever legal records come, and in whatever order: the fold never raises, repeats itself
exactly, and keeps its promises.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.wire.event_to_topic_rows import event_row
from strategies.averages.bundle_averages import unpack_history
from strategies.bundles import (
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    BundleLoads,
    TableSummary,
)
from strategies.cluster.cluster_state import BrokerState, ClusterState, InMemoryStore
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.model import Command, Event, Outcome, OutcomeReport
from strategies.cluster.packed_records import pack_record, unpack_record
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import learn_outcome
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.properties.legal import seeds
from tests.properties.lives import EAGER_ENGINES, ROUNDS, fold_again, live, moves, with_intents
from tests.world.telemetry import commands, outcome, rejections, rounds

any_settings, lengths = st.sampled_from(EAGER_ENGINES), st.integers(0, 120)


class ByteStore(InMemoryStore):
    """All that is put goes through bytes, as in a checkpoint. Brokers come in another order, which
    must make no difference.
    """

    def put_broker(self, state: BrokerState) -> None:
        packed = msgspec.msgpack.encode(state)
        super().put_broker(msgspec.msgpack.decode(packed, type=BrokerState))

    def brokers(self) -> Iterator[BrokerState]:
        return iter(sorted(super().brokers(), key=lambda one: one.broker, reverse=True))

    def put_cluster(self, state: ClusterState) -> None:
        super().put_cluster(from_bytes(to_bytes(state)))


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_what_is_kept_about_a_table_is_what_the_table_says(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    """Whoever sums up the table of a broker has the same numbers, to the bit, also after bundles
    came with averages or left.
    """
    store = InMemoryStore()
    for record in live(chosen, moves(seed, count)).records:
        Engine(chosen).fold(record, store)
        for broker in store.brokers():
            table = store.get_table(broker.broker)
            assert broker.table == (
                TableSummary() if table is None else _summed(unpack_history(table).loads())
            )


def _summed(loads: BundleLoads) -> TableSummary:
    if not loads.names:
        return TableSummary()
    rate_in, rate_out = (
        float(np.cumsum(loads.long[:, column])[-1]) for column in (RATE_IN, RATE_OUT)
    )
    rates = loads.long[:, RATE_IN] + loads.long[:, RATE_OUT]
    throughputs = loads.long[:, THROUGHPUT_IN] + loads.long[:, THROUGHPUT_OUT]
    most = (
        max(loads.topics.tolist()),
        max(loads.sessions.tolist()),
        max(rates.tolist()),
        max(throughputs.tolist()),
    )
    return TableSummary(rate_in, rate_out, int(loads.topics.sum()), *most)


def everything_can_be_published(events: list[Event]) -> None:
    assert all(event_row(event).value for event in events)


def rounds_are_numbered_without_gaps_and_name_their_commands(events: list[Event]) -> None:
    closed = rounds(events)
    assert [round_.round for round_ in closed] == list(range(1, len(closed) + 1))
    assert [command.id for command in commands(events)] == [
        id_ for round_ in closed for id_ in round_.commands
    ]


def an_id_stands_for_one_command(events: list[Event]) -> None:
    ids = Counter(command.id for command in commands(events))
    assert [id_ for id_, count in ids.items() if count > 1] == []


def a_record_is_rejected_at_most_once(events: list[Event]) -> None:
    rejected = [event.record.origin for event in rejections(events)]
    assert len(rejected) == len(set(rejected))


def commands_move_bundles_between_brokers_that_were_judged(events: list[Event]) -> None:
    judged = {done.round: set(done.brokers) for done in rounds(events)}
    for command in commands(events):
        assert command.source in judged[command.round]
        assert command.destination is None or command.destination in judged[command.round]


PROMISES = (
    everything_can_be_published,
    rounds_are_numbered_without_gaps_and_name_their_commands,
    an_id_stands_for_one_command,
    a_record_is_rejected_at_most_once,
    commands_move_bundles_between_brokers_that_were_judged,
)


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_nothing_legal_stops_the_fold_which_keeps_its_promises_and_repeats_itself(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    """Equal records give equal events though state goes through bytes between any two."""
    story = live(chosen, with_intents(seed, count))
    for promise in PROMISES:
        promise(story.events)
    told = [published(events) for events in story.told]
    packed = [unpack_record(pack_record(record)) for record in story.records]
    for records, store in ((story.records, InMemoryStore()), (packed, ByteStore())):
        assert [published(events) for events in fold_again(chosen, records, store)] == told


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_an_intent_that_comes_again_says_nothing(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    store = InMemoryStore()
    for record in live(chosen, with_intents(seed, count)).records:
        Engine(chosen).fold(record, store)
        if isinstance(record, Intent) and record.id in store.get_cluster().intents.seen:
            assert Engine(chosen).fold(record, store) == []


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_a_bundle_is_commanded_at_most_once_per_cool_down_unless_its_move_came_to_nothing(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    """A rest that is over stays over when the clock then goes back a little."""
    story = live(chosen, moves(seed, count, wild_clocks=False))
    resting: dict[str, Command] = {}
    latest = 0
    for record, events in zip(story.records, story.told, strict=True):
        latest = max([latest, *(done.ts for done in rounds(events))])
        if isinstance(record, OutcomeReport):
            _release(record.outcome, resting)
        for command in commands(events):
            before = resting.get(command.bundle)
            # Java's TransferShedder does not look at what it takes in exchange: decision record
            # 0044.
            if before is not None and (chosen.mode, command.code) != ("parity", "swap"):
                assert latest - before.issued_at_ms > ROUNDS.cool_down_ms
            if command.action != "throttle":
                resting[command.bundle] = command


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_a_dry_run_after_a_verdict_or_another_dry_run_changes_nothing(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    told, again = InMemoryStore(), InMemoryStore()
    for record in live(chosen, moves(seed, count)).records:
        events = Engine(chosen).fold(record, told)
        assert published(Engine(chosen).fold(record, again)) == published(events)
        rejected = rejections(events)
        if isinstance(record, OutcomeReport) and again.get_cluster().early is None and not rejected:
            state = again.get_cluster()
            dry = replace(record, outcome=replace(record.outcome, status="dry-run"))
            again.put_cluster(learn_outcome(dry, state, again))
            assert again.get_cluster() == state


@pytest.mark.heavy
@given(any_settings, seeds, lengths)
def test_where_every_command_meets_a_dry_run_nothing_rests_is_under_way_or_spent(
    chosen: EngineSettings, seed: int, count: int
) -> None:
    store = InMemoryStore()
    for record in live(chosen, moves(seed, count, wild_clocks=False)).records:
        if isinstance(record, OutcomeReport):
            continue
        for command in commands(Engine(chosen).fold(record, store)):
            answer = outcome(command.id, command.bundle, 0, "dry-run")
            store.put_cluster(learn_outcome(answer, store.get_cluster(), store))
        state = store.get_cluster()
        assert (state.cooling, state.in_flight, state.orders, state.spent) == ({}, {}, {}, ())


def _release(outcome: Outcome, resting: dict[str, Command]) -> None:
    command = resting.get(outcome.bundle)
    if (
        command is not None
        and command.id == outcome.command_id
        and outcome.status in ("refused", "failed", "expired", "dry-run")
    ):
        del resting[outcome.bundle]


def published(events: list[Event]) -> list[bytes]:
    return [event_row(event).value for event in events]
