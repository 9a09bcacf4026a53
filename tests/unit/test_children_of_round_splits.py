"""A split by traffic that a round decides: the child that it names goes to the destination that it
names, once, and only as long as that helps.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Command, OutcomeStatus, TelemetryRecord
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import drop_unseen_moves
from strategies.settings import DrainSettings, RoundSettings
from strategies.splitting.bundle_limits import SplitSettings
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.unit.test_hot_bundles import BUNDLE, FLOW, known
from tests.world.intents import drain, intent
from tests.world.little_cluster import LittleCluster, applies
from tests.world.sized_clusters import isolation
from tests.world.telemetry import bundle, commands

CHILDREN = ("t/ns/0x00000000_0x00000201", "t/ns/0x00000201_0x00001000")
SPLITS = SplitSettings(True, FLOW, max_bandwidth_mib=50, max_msg_rate=10**6)


def cluster(**given: Any) -> LittleCluster:
    """Three brokers, one of which is about to split its largest bundle."""
    brokers = {"a:1": {BUNDLE: 60.0}, "b:1": {bundle(32): 10.0}, "c:1": {bundle(48): 15.0}}
    made = LittleCluster(brokers, EngineSettings(splitting=SPLITS, **given), topics=2)
    made.passes()
    made.tell(known({0x100: 30, 0x300: 30}, made.seconds + 5))
    return made


def split(**given: Any) -> LittleCluster:
    """The cluster after the round that splits, and after the split."""
    made = cluster(**given)
    made.passes()
    return made


def moves(made: LittleCluster) -> list[tuple[str, str, str | None]]:
    """Of the bundle and its children: from where to where."""
    about = (one for one in made.commands if one.is_move and one.bundle in (BUNDLE, *CHILDREN))
    return [(one.bundle, one.source, one.destination) for one in about]


def said(made: LittleCluster, passes: int = 1) -> IntentStatus:
    """What the last of some rounds says about the child."""
    (status,) = made.passes(passes).intents
    return status


MOVED = [(CHILDREN[0], "a:1", "b:1")]


def test_the_named_child_goes_to_the_named_destination_and_rests() -> None:
    made = cluster()
    statuses = [said(made) for _ in range(3)]

    assert [(one.action, one.state) for one in statuses] == [
        ("split", "splitting"),
        ("move", "moving"),
        ("move", "done"),
    ]
    assert {(one.by, one.broker) for one in statuses} == {("round 2", "b:1")}
    order, move = (one for one in made.commands if one.bundle in (BUNDLE, *CHILDREN))
    assert (order.evidence["leaves"], order.evidence["destination"]) == MOVED[0][::2]
    assert (moves(made), move.code) == (MOVED, order.code)
    assert {*CHILDREN} <= {*made.store.get_cluster().cooling}
    made.passes(20)
    assert moves(made) == MOVED
    assert CHILDREN[0] in made.brokers["b:1"]


@pytest.mark.parametrize("algorithm", [FLOW, "range_equally_divide"])
@pytest.mark.parametrize("given", [{"mode": "parity"}, {}])
def test_a_split_of_unknown_topics_and_one_in_parity_move_nothing(
    algorithm: Any, given: dict[str, Any]
) -> None:
    """Known topics are of no use in parity."""
    made = LittleCluster({"a:1": {BUNDLE: 60.0}, "b:1": {bundle(32): 40.0}}, topics=2)
    made.engine = Engine(EngineSettings(splitting=replace(SPLITS, algorithm=algorithm), **given))
    if given:
        made.tell(known({0x100: 30, 0x300: 30}))
    made.passes(8)
    assert [one.action for one in made.commands][:1] == ["split"]
    assert moves(made) == []


def drained(made: LittleCluster) -> None:
    made.tell(drain(1, made.seconds + 6, "b:1"))


def full(made: LittleCluster) -> None:
    made.brokers["b:1"][bundle(32)] = 60.0
    made.brokers["a:1"][bundle(1)] = 40.0


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (drained, "being-drained"),
        (lambda made: made.down.add("b:1"), "not-there"),
        (lambda made: made.policies(isolation("t/ns", "[ac]:1")), "isolation-outside"),
        (full, "would-overload"),
        (lambda made: made.brokers["a:1"].update(dict.fromkeys(CHILDREN, 1.0)), "no-relief"),
        (lambda made: made.move(CHILDREN[0], "a:1", "c:1"), "moved-by-others"),
    ],
)
def test_the_destination_is_judged_again_and_the_child_stays(
    happens: Callable[[LittleCluster], None], code: str
) -> None:
    made = split()
    happens(made)

    ended = next(one for one in made.passes().intents if one.action == "move")

    assert (ended.state, ended.bundle) == ("cancelled", CHILDREN[0])
    assert f"[{code}]" in ended.text
    made.passes(20)
    assert (CHILDREN[0], "a:1", "b:1") not in moves(made)


@pytest.mark.parametrize("status", ["refused", "failed", "expired", "dry-run", None])
def test_a_split_that_does_not_happen_moves_nothing(status: OutcomeStatus | None) -> None:
    made = cluster()
    made.executor = lambda command: status if command.action == "split" else "applied"

    last = made.passes(40)

    assert CHILDREN[0] not in [name for name, _, _ in moves(made)]
    assert all(one.state == "splitting" for one in last.intents), "the outcome says it already"


def test_a_child_waits_for_its_turn_and_persons_go_first() -> None:
    made = split(drains=DrainSettings(bundles_at_a_time=1))
    made.tell(intent(1, "move", made.seconds + 6, "a:1", bundle=bundle(48)))

    both, later = made.passes().intents, made.passes().intents

    assert {one.bundle: one.state for one in both} == {CHILDREN[0]: "asked", bundle(48): "moving"}
    assert "[waits-for-drain]" in both[0].text
    assert {one.bundle: one.state for one in later} == {CHILDREN[0]: "moving", bundle(48): "done"}


def test_a_move_that_an_executor_refuses_ends_it() -> None:
    made = split()
    made.executor = lambda _: "refused"
    assert [said(made, passes).state for passes in (1, 1)] == ["moving", "cancelled"]


def folded(engine: Engine, records: list[TelemetryRecord], store: InMemoryStore) -> list[Command]:
    events = [event for one in records for event in engine.fold(one, store)]
    store.put_cluster(from_bytes(to_bytes(store.get_cluster())))
    return commands(events)


def test_a_job_that_is_killed_at_any_record_decides_the_same_again() -> None:
    made = cluster()
    made.passes(4)
    for at in range(len(made.log)):
        store = InMemoryStore()
        before, checkpoint = folded(made.engine, made.log[:at], store), deepcopy(store)
        lost = folded(made.engine, made.log[at : at + 6], store)
        again = folded(made.engine, made.log[at:], checkpoint)

        assert [*before, *again] == made.commands
        assert lost == again[: len(lost)]
        assert checkpoint.get_cluster() == made.store.get_cluster()


@pytest.mark.parametrize(("rounds", "carried_out"), [(0, 1), (1, 1), (1, 2), (2, 2)])
def test_a_warm_start_goes_on_where_the_job_before_stopped(rounds: int, carried_out: int) -> None:
    """`carried_out`: of the split and the move; the job died before it published the others."""
    made = cluster()
    made.executor = lambda _: "applied" if len(made.commands) <= carried_out else None
    made.passes(1 + rounds)
    published, made.store = made.commands[:carried_out], InMemoryStore()
    made.engine = Engine(replace(made.settings, round=RoundSettings(epoch=2)))
    folded(made.engine, made.log, made.store)
    made.store.put_cluster(drop_unseen_moves(made.store.get_cluster()))
    made.executor, made.commands = applies, published

    last = made.passes(3)

    assert moves(made) == MOVED
    assert [(one.state, one.bundle) for one in last.intents] == [("done", CHILDREN[0])]
