"""The job killed in the middle of its work: what it publishes, without repetitions, is what it
would have published undisturbed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.kills.compared_topics import compare
from tools.kills.kill_job import plan, run
from tools.processes.real_job import recording

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes to kill in /proc"),
]


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.slow
def test_three_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    """What a kill hits is luck: other moments are tried when none of the three has hit a
    micro-batch.
    """
    for seed in (7, 8, 9):
        result = run(tmp_path / str(seed), recording("modular-broker-killed"), plan(3, seed=seed))
        assert result.faults == []
        records = {comparison.topic: comparison.records for comparison in result.comparisons}
        assert min(records["commands"], records["rounds"]) > 5
        assert records["rejected"] == 3, (
            "the torn line of each publisher that was killed along with the job"
        )
        if any(death.in_batch and death.processes >= 2 for death in result.deaths):
            return
    raise AssertionError(
        "of nine kills, none has hit driver and Java in the middle of a micro-batch"
    )


def test_the_same_seed_plans_the_same_kills_and_the_first_three_are_of_every_moment() -> None:
    assert plan(20, seed=7) == plan(20, seed=7) != plan(20, seed=8)
    assert {kill.moment for kill in plan(3, seed=1)} == {"start", "batch", "append"}


class TestTheComparison:
    """Guards the tests above: what it is to find, it finds."""

    ONE, TWO = b'{"id":"1","x":1}', b'{"id":"2","x":1}'

    def test_repetitions_and_torn_lines_that_came_whole_later_are_fine(self) -> None:
        comparison = compare(
            "commands", [self.ONE, self.TWO[:9], self.TWO, self.ONE], [self.ONE, self.TWO]
        )
        assert (comparison.records, comparison.repeated, comparison.torn, comparison.faults) == (
            2,
            1,
            1,
            (),
        )

    @pytest.mark.parametrize(
        ("found", "fault"),
        [
            ([ONE], "commands: ('2',) is missing"),
            ([ONE, TWO, b'{"id":"3","x":1}'], "commands: ('3',) should not be there"),
            ([ONE, TWO, b'{"id":"1","x":2}'], "commands: ('1',) was published with two contents"),
            ([ONE, b'{"id":"2","x":2}'], "commands: ('2',) has another content"),
            ([TWO, ONE], "commands: the order differs"),
            (
                [ONE, TWO, b'{"id":"7'],
                'line 3 is no record, and no later line completes it: b\'{"id":"7\'',
            ),
        ],
    )
    def test_everything_else_is_a_fault(self, found: list[bytes], fault: str) -> None:
        assert compare("commands", found, [self.ONE, self.TWO]).faults == (fault,)
