"""A roll, whatever its process sees: it always has a step, restarts nobody that no round has
acknowledged, and never has more brokers in work than it may.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from strategies.cluster.intent_contract import RollPhase
from strategies.roll.next_step import next_step
from strategies.roll.steps import (
    EndProcess,
    HaltRoll,
    KeepWaiting,
    RollFacts,
    RunRestart,
    WriteRecord,
)
from strategies.roll.view import (
    IN_WORK,
    Observation,
    RestartRun,
    RollMemory,
    RollRounds,
    RollRules,
    RollView,
)
from tests.unit.roll_builders import (
    NOW,
    A,
    B,
    C,
    D,
    World,
    drain_status,
    intent,
    roll_status,
    run_roll,
)

BROKERS = (A, B, C, D)
PHASES: tuple[RollPhase, ...] = ("waiting", "draining", "drained", "restarting", "restarted")
some = st.lists(st.sampled_from([*BROKERS, "e:1"]), unique=True).map(tuple)
times = st.integers(NOW - 900_000, NOW)
by_broker = st.dictionaries(st.sampled_from(BROKERS), times, max_size=4)
maybe = st.one_of(st.none(), times)
rules = st.builds(RollRules, by_hand=st.booleans(), even=st.booleans())
observations = st.builds(
    Observation,
    now_ms=st.just(NOW),
    # Most often everybody is there: nothing goes on otherwise.
    live=st.one_of(st.just(BROKERS), st.just(BROKERS), st.none(), some),
    leader=st.one_of(st.none(), st.sampled_from(BROKERS)),
    reading=st.one_of(st.just(BROKERS), some),
    frozen=st.one_of(st.just(()), st.just(()), some),
    started_ms=by_broker,
    missing_ms=by_broker,
    gone_ms=by_broker,
    unowned_ms=st.one_of(st.just({}), st.dictionaries(st.just("t/n/0x0_0x1"), times)),
    unreadable_ms=st.one_of(st.none(), maybe),
    obstacle=st.one_of(st.none(), st.just("a plan waits")),
)
memories = st.builds(
    RollMemory,
    since_ms=times,
    pending=st.one_of(
        st.none(), st.none(), st.sampled_from([intent("drain", A), intent("end", id_="other")])
    ),
    ids=st.just(frozenset({"mine", "other"})),
    in_charge=st.booleans(),
    due=st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(BROKERS))),
    ran=st.dictionaries(
        st.sampled_from(BROKERS),
        st.builds(
            RestartRun,
            at_ms=times,
            started_before_ms=times,
            running=st.booleans(),
            failed=st.one_of(st.none(), st.none(), st.just("exit code 1")),
        ),
    ),
)


@st.composite
def views(draw: st.DrawFn) -> RollView:
    phases = {one: draw(st.sampled_from(PHASES)) for one in BROKERS[: draw(st.integers(1, 4))]}
    drains = {
        one: drain_status(
            one,
            draw(st.sampled_from(["asked", "draining", "blocked", "drained"])),
            since_ms=draw(times),
        )
        for one, phase in phases.items()
        if phase in IN_WORK and draw(st.booleans())
    }
    state = draw(st.sampled_from(["rolling"] * 6 + ["halted", "done", "cancelled"]))
    record = draw(st.sampled_from(["mine"] * 6 + [None, "theirs"]))
    refused = draw(st.sampled_from([(), (), ("mine",)]))
    return RollView(
        roll_status(phases, state=state, record=record),
        drains,
        {one: roll_status({}, id=one, state="refused") for one in refused},
    )


rounds = st.builds(
    RollRounds,
    view=views(),
    times=st.lists(times, max_size=8).map(sorted).map(tuple),
    brokers=st.one_of(st.just(BROKERS), some),
    stale=st.one_of(st.just({}), st.dictionaries(st.sampled_from(BROKERS), st.just("silent"))),
    state=st.sampled_from(["balanced", "acting", "cannot-help", "waiting", None]),
    text=st.just("so it is"),
    bad=st.sampled_from([0, 0, 0, 1, 3]),
    fresh=st.dictionaries(st.sampled_from(BROKERS), st.integers(0, 3)),
    restarted_ms=by_broker,
)
all_facts = st.builds(
    RollFacts,
    rounds=rounds,
    seen=observations,
    memory=memories,
    rules=rules,
    max_unavailable=st.integers(1, 3),
)
#: Most of them let the roll go on.
quiet_facts = st.builds(
    lambda facts, phases, stale, fresh: replace(
        facts,
        rounds=replace(
            facts.rounds,
            view=replace(facts.rounds.view, status=roll_status(phases)),
            brokers=BROKERS,
            bad=0,
            stale=stale,
            fresh=dict.fromkeys(BROKERS, fresh),
        ),
        seen=replace(facts.seen, live=BROKERS, frozen=(), unowned_ms={}, unreadable_ms=None),
        memory=replace(facts.memory, pending=None),
    ),
    all_facts,
    st.fixed_dictionaries({one: st.sampled_from(PHASES) for one in BROKERS}),
    st.sampled_from([{}, {}, {}, {B: "silent"}]),
    st.sampled_from([2, 2, 2, 1]),
)


@pytest.mark.heavy
@given(facts=all_facts)
def test_whatever_is_seen_there_is_one_step(facts: RollFacts) -> None:
    step = next_step(facts)
    assert step == next_step(facts)
    event(type(step).__name__)
    match step:
        case KeepWaiting(text):
            assert text
        case HaltRoll(text, advice):
            assert text
            assert "rebalancer roll --resume" in advice
        case EndProcess(code, text, advice):
            assert code
            assert text
            assert advice


@pytest.mark.heavy
@given(facts=st.one_of(all_facts, quiet_facts))
def test_only_an_acknowledged_restart_is_run_and_nothing_while_something_is_wrong(
    facts: RollFacts,
) -> None:
    step, phases, seen = next_step(facts), facts.rounds.view.phases, facts.seen
    event(type(step).__name__)
    if not isinstance(step, RunRestart | WriteRecord):
        return
    assert facts.memory.pending is None
    assert (seen.frozen, facts.rounds.bad, {**seen.unowned_ms}) == ((), 0, {})
    assert seen.live is not None
    assert {one for one in phases if phases[one] != "restarting"} <= {*seen.live}
    status = facts.rounds.view.status
    assert status is not None
    assert (status.state, status.record in (None, "mine", "other")) == ("rolling", True)
    if isinstance(step, RunRestart):
        assert phases[step.broker] == "restarting"
        assert step.broker in facts.memory.due


@pytest.mark.heavy
@given(facts=quiet_facts)
def test_records_keep_the_order_of_phases_and_the_number_in_work(facts: RollFacts) -> None:
    step, phases = next_step(facts), facts.rounds.view.phases
    if not isinstance(step, WriteRecord):
        return
    event(step.action)
    work = [one for one, phase in phases.items() if phase in IN_WORK]
    match step.action:
        case "drain":
            assert phases[str(step.broker)] == "waiting"
            assert len(work) < facts.max_unavailable
            assert step.together == bool(work)
            waiting = [one for one, phase in phases.items() if phase == "waiting"]
            assert step.broker != facts.seen.leader or (waiting == [step.broker] and not work)
            assert not {*facts.rounds.stale} & {*(facts.seen.live or ())} - {
                one for one, phase in phases.items() if phase == "restarting"
            }
        case "restarting":
            assert phases[str(step.broker)] == "drained"
        case "restarted":
            assert phases[str(step.broker)] == "restarting"
            assert step.broker in facts.seen.reading
            assert facts.has_restarted(str(step.broker))
        case _:
            assert step.action == "end"
            assert {*phases.values()} == {"restarted"}


@pytest.mark.heavy
@given(
    seed=st.integers(0, 2**32),
    deaths=st.integers(0, 6),
    most=st.integers(1, 3),
    leader=st.sampled_from([A, B, C, D]),
    down_ms=st.integers(1_000, 200_000),
)
def test_whoever_dies_nobody_is_restarted_twice(
    seed: int, deaths: int, most: int, leader: str, down_ms: int
) -> None:
    world = World(leader=leader, max_unavailable=most, down_ms=down_ms)
    last = run_roll(world, Random(seed), deaths)[-1].ended
    event(type(last).__name__)
    assert len(world.restarts) == len({*world.restarts})
    assert world.most_out <= most
    if isinstance(last, HaltRoll):
        assert "--restart-again" in last.advice
    else:
        assert sorted(world.restarts) == [A, B, C, D]
    for broker, led_by, waiting in world.leaders:
        assert broker != led_by or waiting == 1
