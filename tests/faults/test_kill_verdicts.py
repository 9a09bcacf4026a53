"""What the kill loops find when something was lost, changed or done twice."""

from collections.abc import Sequence

import pytest

from sinks.wire.codec import encode_outcome
from tests.control_topic import command, outcome
from tests.pulsar_fake.model import Applied
from tools.kills.compared_topics import compare
from tools.kills.kill_everything import wrong_outcomes

ONE, TWO = b'{"id":"1","x":1}', b'{"id":"2","x":1}'
A, B = "a:1", "b:1"
MOVED = command("t/ns/0x00000000_0x01000000", A, B)
LATE = command("t/ns/0x01000000_0x02000000", A, B)
DONE, EXPIRED = encode_outcome(outcome(MOVED, "applied")), encode_outcome(outcome(LATE, "expired"))
AGAIN = encode_outcome(outcome(MOVED, "already-done", "replayed: carried out before", 6))
OTHER = encode_outcome(outcome(MOVED, "expired", "replayed: had expired before", 7))
RELEASED = Applied("unload", MOVED.bundle, A, B)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([ONE, TWO[:9], TWO, ONE], ""),
        ([ONE], "commands: ('2',) is missing"),
        ([ONE, TWO, b'{"id":"3","x":1}'], "commands: ('3',) should not be there"),
        ([ONE, TWO, b'{"id":"1","x":2}'], "commands: ('1',) was published with two contents"),
        ([ONE, b'{"id":"2","x":2}'], "commands: ('2',) has another content"),
        ([TWO, ONE], "commands: the order differs"),
        ([ONE, TWO, b'{"id":"7'], "line 3 is no record, and no later line completes it: "),
    ],
)
def test_repetitions_and_completed_lines_are_fine_and_everything_else_is_a_fault(
    found: list[bytes], fault: str
) -> None:
    faults = compare("commands", found, [ONE, TWO]).faults
    assert [one.startswith(fault) for one in faults] == [True] * bool(fault)


@pytest.mark.parametrize(
    ("commands", "outcomes", "released", "fault"),
    [
        ([MOVED, LATE], [DONE, EXPIRED, DONE], [RELEASED], ""),
        ([MOVED, MOVED], [DONE, AGAIN], [RELEASED], ""),
        ([MOVED, LATE], [DONE], [RELEASED], f"{LATE.id} has 0 verdicts"),
        ([MOVED], [DONE, EXPIRED], [RELEASED], f"an outcome for {LATE.id}, which no command"),
        ([MOVED], [DONE], [RELEASED] * 2, f"{MOVED.bundle} was released 2 times, by 1 commands"),
        ([LATE], [EXPIRED], [Applied("unload", LATE.bundle, A, B)], f"{LATE.bundle} was released"),
        ([MOVED], [DONE, AGAIN], [], f"{MOVED.id} has 1 repeated verdicts, and was published 1"),
        ([MOVED, MOVED], [DONE, OTHER], [], f"{MOVED.id} was applied, and is expired when"),
    ],
)
def test_a_command_without_its_one_verdict_and_a_second_release_are_faults(
    commands: Sequence[object], outcomes: Sequence[bytes], released: Sequence[object], fault: str
) -> None:
    faults = wrong_outcomes(commands, outcomes, released)  # type: ignore[arg-type]
    assert [one.startswith(fault) for one in faults] == [True] * bool(fault)
