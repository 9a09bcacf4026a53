"""Each test belongs to one lane of the Makefile."""

import re
from collections.abc import Iterable
from itertools import chain, combinations

from _pytest.mark.expression import Expression

from tests.architecture.command_line import ROOT

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
MARKS = ("spark", "servers", "essential", "variant", "lab", "heavy", "slow")
ALL = list(chain.from_iterable(combinations(MARKS, count) for count in range(len(MARKS) + 1)))


def selected(variable: str, marks: Iterable[str]) -> bool:
    """Whether a lane, a variable of the Makefile, runs tests with these marks."""
    found = re.search(rf"^{variable} := (.+)$", MAKEFILE, re.MULTILINE)
    assert found is not None, variable

    def has(name: str, /, **_: object) -> bool:
        return name in marks

    return Expression.compile(found[1]).evaluate(has)


def test_each_test_belongs_to_one_lane() -> None:
    lanes = {
        marks: [one for one in ("TESTS", "SERVER_TESTS", "LAB_TESTS") if selected(one, marks)]
        + ["slow"] * ("slow" in marks)
        for marks in ALL
    }
    assert {marks: found for marks, found in lanes.items() if len(found) != 1} == {}


def test_make_check_runs_nothing_that_make_test_leaves_out() -> None:
    fast = [marks for marks in ALL if selected("FAST_TESTS", marks)]
    assert () in fast
    assert [marks for marks in fast if not selected("TESTS", marks)] == []


def test_ci_runs_the_lanes_that_a_change_can_break() -> None:
    ran = re.findall(r"^make ([\w-]+)", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    assert ran == ["check", "test", "test-servers"]


def test_the_page_explains_the_marks() -> None:
    page = (ROOT / "docs/TESTING.md").read_text("utf-8")
    explained = set(
        re.findall(r"^\| `(\w+)` \| (?:is|takes|uses|starts|repeats|makes) ", page, re.MULTILINE)
    )
    assert explained == {*MARKS} - {"essential"}
    assert "`essential`" in page
