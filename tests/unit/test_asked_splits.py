"""A split that a person asks for, or a round with a destination, and what becomes of children."""

from dataclasses import replace
from typing import Any

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, OutcomeStatus
from strategies.cluster.rival_state import ForeignMove, Rivals
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.outcomes import drop_unseen_moves
from strategies.settings import DestinationSettings, DrainSettings, LimitSettings
from strategies.splitting.bundle_limits import SplitSettings
from streaming.state.state_to_bytes import from_bytes, to_bytes
from tests.unit.test_drains import said
from tests.unit.test_hot_bundles import FLOW, known
from tests.world.intents import drain, intent
from tests.world.little_cluster import LittleCluster, applies
from tests.world.sized_clusters import isolation
from tests.world.telemetry import T0, bundle, commands

BUNDLE = "t/ns/0x00000000_0x40000000"
HALVES = ("t/ns/0x00000000_0x20000000", "t/ns/0x20000000_0x40000000")
THIRDS = ("t/ns/0x00000000_0x10000000", "t/ns/0x10000000_0x30000000", "t/ns/0x30000000_0x40000000")
AT = (0x10000000, 0x30000000)


def asked(
    settings: EngineSettings = EngineSettings(), bundle: str = BUNDLE, **more: Any
) -> LittleCluster:
    """Three brokers with one bundle each, after the record of a split."""
    names = {
        "a:1": BUNDLE,
        "b:1": "t/ns/0x40000000_0x80000000",
        "c:1": "t/ns/0x80000000_0xffffffff",
    }
    made = LittleCluster({name: {owned: 8.0} for name, owned in names.items()}, settings)
    made.passes()
    made.tell(intent(1, "split", made.seconds + 5, bundle=bundle, **more))
    return made


def state(made: LittleCluster) -> str:
    return said(made.passes()).state


@pytest.mark.parametrize(
    ("more", "algorithm", "children"),
    [
        ({}, "range_equally_divide", HALVES),
        ({"algorithm": "topic_count_equally_divide"}, "topic_count_equally_divide", HALVES),
        ({"positions": AT}, "specified_positions_divide", THIRDS),
    ],
)
def test_a_bundle_is_split_once_and_its_children_rest(
    more: dict[str, Any], algorithm: str, children: tuple[str, ...]
) -> None:
    made = asked(**more)

    assert [state(made), state(made)] == ["splitting", "done"]
    (command,) = made.commands
    assert (command.action, command.bundle, command.source) == ("split", BUNDLE, "a:1")
    assert (command.code, command.algorithm) == ("by-hand", algorithm)
    assert command.boundaries == more.get("positions", ())
    assert "Ann asked for it (new disks)" in command.text
    assert f"split into {len(children)} bundles" in said(made.passes(5)).text
    assert (tuple(made.brokers["a:1"]), len(made.commands)) == (children, 1)
    assert {*children} <= {*made.store.get_cluster().cooling}


@pytest.mark.parametrize("to", ["b:1", None])
@pytest.mark.parametrize("algorithm", [None, "flow_or_qps_equally_divide"])
def test_all_children_but_the_first_one_move(to: str | None, algorithm: str | None) -> None:
    made = asked(broker=to, algorithm=algorithm, moves_children=True)

    assert [state(made), state(made), state(made)] == ["splitting", "moving", "done"]
    split, move = made.commands
    assert (move.bundle, move.source, move.code) == (HALVES[1], "a:1", "by-hand")
    assert to in (None, move.destination)
    assert tuple(made.brokers["a:1"]) == HALVES[:1]
    assert "Ann" in move.text
    assert move.evidence != split.evidence


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"positions": (0x40000000,)}, "positions-outside"),
        ({"positions": (0x20000000, 0x20000000)}, "positions-outside"),
        ({"algorithm": "by_colour"}, "unknown-algorithm"),
        ({"algorithm": "specified_positions_divide"}, "algorithm-and-positions"),
        ({"algorithm": "range_equally_divide", "positions": AT}, "algorithm-and-positions"),
        ({"bundle": "t/ns/0x00000000_0x00000001"}, "not-divisible"),
        ({"bundle": "pulsar/a:1/0x00000000_0xffffffff"}, "system-bundle"),
        ({"broker": "b:1"}, "children-stay"),
        ({"broker": "x:1", "moves_children": True}, "unknown-broker"),
        ({"broker": "c:1", "moves_children": True}, "being-drained"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(more: dict[str, Any], code: str) -> None:
    made = asked()
    made.tell(drain(2, made.seconds + 6, "c:1"))
    made.tell(intent(3, "split", made.seconds + 7, **{"bundle": HALVES[0], **more}))

    status = said(made.passes(), 3)

    assert (status.state, status.action) == ("refused", "split")
    assert status.text.endswith(f"[{code}]")


def test_a_bundle_is_asked_for_once() -> None:
    made = asked()
    made.tell(intent(2, "move", made.seconds + 6, bundle=BUNDLE))
    assert "Ann asked to split it" in said(made.passes(), 2).text


@pytest.mark.parametrize(
    ("settings", "bundle", "code"),
    [
        (EngineSettings(limits=LimitSettings(windows="Sat 00:00-00:01")), BUNDLE, "outside-window"),
        (EngineSettings(), HALVES[0], "unknown-bundle"),
    ],
)
def test_what_holds_a_split_back_is_named_and_ends_it(
    settings: EngineSettings, bundle: str, code: str
) -> None:
    made = asked(settings, bundle)

    waits, ended = said(made.passes()), said(made.passes(15))

    assert (waits.state, ended.state, made.commands) == ("blocked", "cancelled", [])
    assert f"[{code}]" in waits.text
    assert f"[{code}]" in ended.text


def test_what_objects_to_a_child_stands_at_the_split_until_it_is_lifted() -> None:
    limit = DestinationSettings(overloaded_percent=16)
    made = asked(EngineSettings(destinations=limit), broker="b:1", moves_children=True)

    waits = said(made.passes(3))
    made.brokers["b:1"].clear()
    last = said(made.passes(2))

    assert (waits.state, last.state) == ("moving", "done")
    assert waits.text.startswith(f"it is split, but {HALVES[1]} waits: it would put b:1 above")
    assert waits.text.endswith("[would-overload]")
    assert made.brokers["b:1"].keys() == {HALVES[1]}


def test_a_bundle_that_leaves_a_drained_broker_is_split_where_it_arrives() -> None:
    made = asked()
    made.tell(drain(2, made.seconds + 6, "a:1"))

    waits, last = said(made.passes()), said(made.passes(2))

    assert (waits.state, last.state) == ("blocked", "done")
    assert "[already-leaving]" in waits.text
    assert [(one.action, one.code) for one in made.commands] == [
        ("transfer", "drain"),
        ("split", "by-hand"),
    ]


def test_a_full_namespace_is_named_and_split_all_the_same() -> None:
    made = asked(EngineSettings(splitting=SplitSettings(max_bundles=3)))
    assert "t/ns has 3 bundles already" in said(made.passes()).text
    assert len(made.commands) == 1


@pytest.mark.parametrize("status", ["refused", "failed", "expired", "dry-run", None])
def test_an_executor_that_does_not_split_ends_it(status: OutcomeStatus | None) -> None:
    made = asked(moves_children=True)
    made.executor = lambda _: status
    made.passes()

    ended = said(made.passes(1 if status else 40))

    assert (ended.state, len(made.commands)) == ("cancelled", 1)
    assert ended.advice
    made = hot()
    made.executor = lambda command: "applied" if command.is_move else status
    made.passes(40)
    assert (moved(made), made.store.get_cluster().intents.ended) == ([], ())


def test_a_child_that_stays_is_named() -> None:
    made = asked(moves_children=True)
    made.executor = lambda command: "failed" if command.is_move else "applied"

    ended = said(made.passes(3))

    assert (ended.state, len(made.commands)) == ("cancelled", 2)
    assert f"it is split, but {HALVES[1]} stays" in ended.text


@pytest.mark.parametrize(
    ("algorithm", "commands", "last"),
    [(None, 2, "moving"), ("topic_count_equally_divide", 1, "cancelled")],
)
def test_a_child_without_topics_is_in_no_report(algorithm: str, commands: int, last: str) -> None:
    """It moves all the same where its name is known."""
    made = asked(moves_children=True, algorithm=algorithm)
    made.executor = lambda command: None if command.is_move else "applied"
    made.passes()
    made.brokers["a:1"].pop(HALVES[1])

    ended = said(made.passes(16))

    assert (ended.state, len(made.commands)) == (last, commands)


def test_notes_name_the_children_where_reports_list_the_busiest_bundles_only() -> None:
    made = asked(moves_children=True, algorithm="topic_count_equally_divide")
    made.top = 1
    assert [state(made), state(made), state(made)] == ["splitting", "moving", "done"]


def test_balancing_leaves_the_bundle_and_its_children_alone() -> None:
    """The broker is far too full, and would give the bundle away."""
    made = asked()
    made.brokers["a:1"][BUNDLE] = 90.0
    made.passes(10)
    assert [command.action for command in made.commands] == ["split"]


def hot(passes: int = 1, **given: Any) -> LittleCluster:
    """Three brokers; their second round is to relieve the first one by a split by traffic."""
    brokers = {"a:1": {BUNDLE: 60.0}, "b:1": {bundle(80): 10.0}, "c:1": {bundle(96): 15.0}}
    splits = SplitSettings(True, FLOW, max_bandwidth_mib=50, max_msg_rate=10**6)
    made = LittleCluster(brokers, EngineSettings(splitting=splits, **given), topics_each=2)
    made.passes()
    made.tell(replace(known({0x1FFFFFFE: 30, 0x20000001: 30}, 65), bundle=BUNDLE))
    while made.minute < passes:
        made.passes()
    return made


def moved(made: LittleCluster) -> list[tuple[str, str | None]]:
    return [(one.source, one.destination) for one in made.commands if one.bundle == HALVES[0]]


def test_the_child_that_a_round_names_goes_where_it_says_and_rests() -> None:
    made = hot()
    statuses = [made.passes().intents[0] for _ in range(3)]
    made.passes(20)
    assert [one.state for one in statuses] == ["splitting", "moving", "done"]
    assert {(one.by, one.broker) for one in statuses} == {("round 2", "b:1")}
    order, move = (one for one in made.commands if one.bundle in (BUNDLE, *HALVES))
    assert (order.evidence["leaves"], order.evidence["destination"]) == (HALVES[0], "b:1")
    assert (move.code, moved(made)) == (order.code, [("a:1", "b:1")])
    assert {*HALVES} <= {*made.store.get_cluster().cooling}


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda made: made.tell(drain(1, made.seconds + 6, "b:1")), "being-drained"),
        (lambda made: made.down.add("b:1"), "not-there"),
        (lambda made: made.policies(isolation("t/ns", "[ac]:1")), "isolation-outside"),
        (lambda made: made.brokers["a:1"].update(dict.fromkeys(HALVES, 1.0)), "no-relief"),
        (lambda made: made.move(HALVES[0], "a:1", "c:1"), "moved-by-others"),
    ],
)
def test_its_destination_is_judged_again(happens: Any, code: str) -> None:
    made = hot(2)
    happens(made)
    (ended,) = (one for one in made.passes().intents if one.bundle == HALVES[0])
    made.passes(9)
    assert (ended.state, f"[{code}]" in ended.text) == ("cancelled", True)
    assert ("a:1", "b:1") not in moved(made)


def test_it_waits_while_rounds_yield() -> None:
    made, now_ms = hot(2), T0 + 120_000
    rivals = Rivals(moves=(ForeignMove(BUNDLE, "b:1", "c:1", now_ms),), yielding_ms=now_ms)
    made.store.put_cluster(replace(made.store.get_cluster(), rivals=rivals))
    (waits,) = made.passes().intents
    assert (waits.state, "[rounds-yield]" in waits.text, moved(made)) == ("asked", True, [])


def test_persons_go_first() -> None:
    made = hot(2, drains=DrainSettings(bundles_at_a_time=1))
    made.tell(intent(1, "move", made.seconds + 6, "a:1", bundle=bundle(96)))
    waits, goes = ({one.bundle: one.state for one in made.passes().intents} for _ in range(2))
    assert waits == {HALVES[0]: "asked", bundle(96): "moving"}
    assert goes == {HALVES[0]: "moving", bundle(96): "done"}


def folded(made: LittleCluster, store: InMemoryStore, of: slice) -> list[Command]:
    events = [event for record in made.log[of] for event in made.engine.fold(record, store)]
    store.put_cluster(from_bytes(to_bytes(store.get_cluster())))
    return commands(events)


@pytest.mark.parametrize("by_hand", ["topic_count_equally_divide", None])
def test_a_job_that_is_killed_at_any_record_goes_on_in_the_same_way(by_hand: str | None) -> None:
    made = asked(moves_children=True, algorithm=by_hand) if by_hand else hot()
    made.passes(4)
    for at in range(len(made.log)):
        store, checkpoint = InMemoryStore(), InMemoryStore()
        before, _ = (folded(made, one, slice(at)) for one in (store, checkpoint))
        lost = folded(made, store, slice(at, at + 6))
        again = folded(made, checkpoint, slice(at, None))
        assert (before + again, lost) == (made.commands, again[: len(lost)])
        assert checkpoint.get_cluster() == made.store.get_cluster()


@pytest.mark.parametrize(("passes", "carried_out"), [(2, 1), (3, 1), (3, 2), (4, 2)])
def test_a_warm_start_goes_on_where_the_job_before_stopped(passes: int, carried_out: int) -> None:
    """`carried_out`: of the split and the move; the job died before it published the others."""
    made = hot()
    made.executor = lambda _: "applied" if len(made.commands) <= carried_out else None
    made.passes(passes - 1)
    made.engine = Engine(replace(made.settings, round=replace(made.settings.round, epoch=2)))
    made.store, made.commands = InMemoryStore(), made.commands[:carried_out]
    folded(made, made.store, slice(None))
    made.store.put_cluster(drop_unseen_moves(made.store.get_cluster()))
    made.executor = applies
    (last,) = made.passes(3).intents
    assert (last.state, last.bundle, moved(made)) == ("done", HALVES[0], [("a:1", "b:1")])
