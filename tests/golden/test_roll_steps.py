"""The next step of a roll: one broker after the other, the leader last, and a halt at the first
thing that looks wrong. What it says is in roll_steps.txt, which `make golden` rewrites.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strategies.roll.roll_state_and_evidence import RestartRun, RollStep
from strategies.states_and_advice_of_codes import StateCode
from tests.golden.printed import compare
from tests.world.rolls import (
    ALL_WAIT,
    DONE,
    LAST,
    LONG_AGO,
    NEXT,
    NOW,
    ONE_DRAINS,
    ONE_GOES,
    ONE_IS_EMPTY,
    RAN,
    ROLL,
    A,
    B,
    C,
    D,
    Phases,
    drain_of,
    intent,
    round_of,
    status,
    step_of,
)

#: Sentence, phases of the brokers, and what else is given.
Case = tuple[str, Phases, dict[str, Any]]


def case(sentence: str, phases: Phases, **given: Any) -> Case:
    return sentence, phases, given


REFUSED = status("roll", "refused", id="mine", text="c:1 is unknown", advice="Go.")
CASES = [
    case("the first broker by name is drained first", ALL_WAIT),
    case("the leader is not the first", ALL_WAIT, leader=A),
    case("the leader is the last", LAST, leader=A),
    case("nobody has to lead when one is left", LAST, leader=None),
    case("a drained broker is restarted", ONE_IS_EMPTY),
    case("a broker that was gone and is back is restarted", ONE_GOES, ran=RAN,
         gone_ms={A: NOW - 5_000}),
    case("a broker that came back between two looks is restarted", ONE_GOES,
         ran={A: RestartRun(NOW - 20_000, started_before_ms=500)}, started_ms={A: NOW - 9_000}),
    case("a broker has restarted since the process before died", ONE_GOES,
         started_ms={A: NOW - 100_000}),
    case("a broker has gone and come back since this process looks", ONE_GOES,
         gone_ms={A: NOW - 3_000}),
    case("the next one follows when two rounds have figures of the last", NEXT),
    case("a person wants a restart again that is over", ALL_WAIT, due={A}),
    case("the roll ends when the cluster is even", DONE),
    case("the roll ends at once if it need not be even", DONE, even=False, code="acting"),
    case("without a leader nobody knows who is last", ALL_WAIT, leader=None),
    case("one broker at a time", ONE_DRAINS),
    case("it says what moves wait for", ONE_DRAINS, obstacle="plan 1.2-ab waits for approval"),
    case("the leader waits for the others", {A: "draining", B: "restarted", C: "waiting"},
         max_unavailable=2),
    case("two at a time are no more than two", {A: "draining", B: "restarting", C: "waiting"},
         max_unavailable=2, by_hand=True),
    case("a broker that has not gone is waited for", ONE_GOES, ran=RAN),
    case("a start before the command is not its effect", ONE_GOES,
         ran={A: RestartRun(NOW - 20_000, NOW - 60_000)}, started_ms={A: NOW - 60_000}),
    case("a broker that is not listed is not back", ONE_GOES, ran=RAN, gone_ms={A: NOW},
         live=(B, C)),
    case("a broker that reads nothing is not back", ONE_GOES, ran=RAN, gone_ms={A: NOW},
         reading=(B, C)),
    case("a broker that started between two looks has all its time", ONE_GOES, ran=RAN,
         reading=(B, C), since_ms=0, started_ms={A: NOW - 9_000}),
    case("a command that runs on is waited for", ONE_GOES,
         ran={A: RestartRun(NOW - 20_000, running=True)}, gone_ms={A: NOW}),
    case("by hand a person has time to begin", ONE_GOES, ran={A: RestartRun(0)}, by_hand=True,
         since_ms=0),
    case("by hand the time counts from when the broker is gone", ONE_GOES, ran={A: RestartRun(0)},
         by_hand=True, live=(B, C), missing_since_ms={A: NOW - 7_000}),
    case("a restart of a dead process may be under way", ONE_GOES),
    case("what is not seen is no evidence", ONE_GOES, started_ms={}),
    case("a restart of a dead process goes on", ONE_GOES, live=(B, C),
         missing_since_ms={A: NOW - 3_000}),
    case("one round with figures of the last one is not enough", NEXT,
         rounds=[round_of(ONE_GOES), round_of(NEXT)]),
    case("a round without figures of it begins anew", DONE,
         rounds=[round_of(DONE), round_of(DONE, stale={B: "silent"}), round_of(DONE)]),
    case("nor is a drained broker restarted meanwhile",
         {A: "restarted", B: "drained", C: "waiting"}, max_unavailable=2, stale={A: "silent"}),
    case("a broker that takes bundles needs figures", NEXT, stale={C: "no report"}),
    case("figures that are back in the newest round are enough", ALL_WAIT,
         rounds=[round_of(ALL_WAIT, stale={C: "no report"}), round_of(ALL_WAIT)]),
    case("a drain of a broker that has withdrawn its figures is refused", NEXT,
         rounds=[round_of(NEXT)] * 2 + [round_of(NEXT, brokers=(A, B))] * 2),
    case("a restart that is due waits while something is wrong", ONE_GOES, due={A}, live=(A, B)),
    case("a process that resumes does not yield to the dead", ALL_WAIT, record="theirs",
         pending=intent("resume"), in_charge=False),
    case("there may be no round", ALL_WAIT, pending=intent("drain", A), rounds=[]),
    case("a roll that no round knows is waited for", ALL_WAIT, roll="f" * 32),
    case("it waits until the cluster has been even for some rounds", DONE,
         rounds=[round_of(DONE, code="acting"), *[round_of(DONE)] * 3]),
    case("even rounds from before the last restart do not count", DONE,
         rounds=[*[round_of({**DONE, A: "restarting"})] * 2, *[round_of(DONE)] * 3]),
    case("it waits while moves may help", DONE, code="acting"),
    case("a command that fails", ONE_GOES, ran={A: RestartRun(NOW, failed="exit code 5")}),
    case("a broker that does not go", ONE_GOES, ran=LONG_AGO),
    case("a broker that stays away", ONE_GOES, ran=LONG_AGO, live=(B, C)),
    case("a broker that never reads", ONE_GOES, ran=LONG_AGO, reading=(B, C),
         gone_ms={A: NOW - 300_000}),
    case("a broker that a person restarts stays away", ONE_GOES, by_hand=True, live=(B, C),
         missing_since_ms={A: NOW - 600_000}),
    case("a restart of a dead process stays away", ONE_GOES, live=(B, C),
         missing_since_ms={A: NOW - 600_000}),
    case("a restart of a dead process that never was is not run again", ONE_GOES,
         since_ms=NOW - 60_000),
    case("figures that do not come back", NEXT, stale={A: "silent"},
         restarted_since_ms={A: NOW - 600_000}),
    case("a frozen broker", ALL_WAIT, frozen=(B,)),
    case("another broker is lost during a restart", ONE_GOES, ran=RAN, live=(B,),
         missing_since_ms={C: NOW - 40_000}),
    case("two at a time are drained together", {**ONE_DRAINS, D: "waiting"}, max_unavailable=2),
    case("a drain that is blocked is no reason to halt", ONE_DRAINS,
         more=[drain_of(A, "blocked", "no move is allowed [outside-window]", advice="Wait.")]),
    case("a person wants a restart again that goes on", ONE_GOES, due={A}),
    *[case(f"the first record of a process is refused, roll {roll[0]}", ALL_WAIT,
           rounds=[round_of(ALL_WAIT, [REFUSED], record="theirs", id=roll)],
           pending=intent("roll"), in_charge=False) for roll in (ROLL, "f" * 32)],
]  # fmt: skip
#: What is wrong; since when, by name of the fact; and after how long it halts a roll.
WRONG: list[tuple[dict[str, Any], str, str, int]] = [
    ({"live": (A, B)}, "missing_since_ms", C, 30_000),
    ({}, "missing_since_ms", "e:1", 30_000),
    ({"unowned": ("t/n/0_1",)}, "unowned_since_ms", "t/n/0_1", 60_000),
    ({"live": None, "readable": False}, "unreadable_since_ms", "", 120_000),
    ({"reading": (), "readable": False}, "unreadable_since_ms", "", 120_000),
]
#: Where more moves cannot help, a roll ends with the reason.
HELPLESS: tuple[StateCode, ...] = ("cannot-help", "not-allowed")
#: Rounds that cannot judge halt the roll unless its restart is the reason.
CANNOT_JUDGE = [
    case("rounds that yield", ALL_WAIT, code="yielding"),
    case("blind rounds", ALL_WAIT, code="blind", stale={A: "silent"}),
    case("blind rounds without a reason", ONE_GOES, code="blind"),
    case("another broker is silent too", ONE_GOES, code="blind", stale={A: "-", B: "-"}),
    case("yielding during a restart", ONE_GOES, code="yielding", stale={A: "silent"}),
    case("a restart makes it blind", ONE_GOES, code="blind", stale={A: "silent"}),
    case("a restart that is over does", NEXT, code="blind", stale={A: "silent"}),
    case("a round that acts", ALL_WAIT, code="acting", stale={A: "silent"}),
]


def cases() -> Iterator[Case]:
    yield from CASES
    for wrong, fact, name, limit_ms in WRONG:
        for phases in (ALL_WAIT, ONE_IS_EMPTY):
            for at in (NOW - limit_ms + 1, NOW - limit_ms):
                since = {fact: {name: at} if name else at}
                yield f"{name or wrong} for {NOW - at} ms", phases, {**wrong, **since}
    for sentence, phases, given in CANNOT_JUDGE:
        for number in (2, 3):
            rounds = [round_of(phases), *[round_of(phases, **given)] * number]
            yield f"{sentence}, {number} times", phases, {"rounds": rounds, "ran": RAN}

    for code in HELPLESS:
        made = round_of(DONE, code=code, text="too big [coarse-bundles]", advice="Split it.")
        for number in (3, 4):
            yield f"{code}, {number} times", DONE, {"rounds": [made] * number}
    for ended in ("done", "halted", "cancelled", "rolling"):
        for pending in (None, intent("drain", A, "later")):
            given = {"state": ended, "record": "theirs", "pending": pending}
            yield (
                f"another process: {ended}, {'pending' if pending else 'at rest'}",
                ALL_WAIT,
                given,
            )


def told(step: RollStep) -> Iterator[str]:
    """The step and its fields."""
    yield f"  {type(step).__name__}"
    for name in step.__match_args__:
        yield f"    {name}: {getattr(step, name)}"


def test_the_steps_of_a_roll_are_those_of_the_file(rewrite: bool) -> None:
    parts = [
        "\n".join([f"# {sentence}", *told(step_of(phases, **given)), "", ""])
        for sentence, phases, given in cases()
    ]
    compare(Path(__file__).with_name("roll_steps.txt"), parts, rewrite)
