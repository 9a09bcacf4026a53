"""How hard counterexamples are looked for: as hard as docs/TESTING.md says, and no property
may ask for less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from pulsar_rebalancer.lab.conformance.split_positions import SplitFault, cuts
from strategies.shedding.registry import SHEDDERS
from tests.conftest import EXAMPLES
from tests.properties.legal import fitting, memories, seeds, views
from tests.properties.split_requests import algorithms, requests
from tests.properties.test_limits import a_case
from tests.properties.test_placement import moved, placements, stories
from tests.properties.test_round import inputs
from tests.properties.test_shedding import rule_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_the_makefile_and_the_page_name_the_profiles() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.findall(r"--hypothesis-profile=(\w+)", makefile)) == set(EXAMPLES) - {"thorough"}
    page = (ROOT / "docs" / "TESTING.md").read_text("utf-8")
    assert f"`make test` {EXAMPLES['thorough']} examples" in page
    assert f"`make test-long` {EXAMPLES['long']:,}" in page


def test_no_property_sets_a_number_of_its_own() -> None:
    own = {
        file.name for file in HERE.glob("test_*.py") if "max_examples" in file.read_text("utf-8")
    }
    count_their_stories = {"test_fold.py", "test_drained_fold.py"}
    assert own <= {Path(__file__).name, *count_their_stories}


modes = st.sampled_from(["parity", "fixed"])
any_shedder = st.sampled_from(sorted(SHEDDERS))
#: What properties look at in a loop → whether an example has some.
LOOKED_AT: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "moves of a placement": (st.tuples(stories(), placements, modes), lambda it: moved(*it)),
    "decisions of a story": (stories(), lambda story: story.decisions),
    "parts of a split": (
        st.tuples(algorithms, requests()),
        lambda it: not isinstance(found := cuts(it[0], it[1]), SplitFault) and found,
    ),
    "decisions of a shedder": (
        st.tuples(any_shedder, views, memories),
        lambda it: rule_of(it[0], "fixed", eager=True).shed(it[1], fitting(it[2], it[1])).decisions,
    ),
    "brokers that a memory knows": (memories, lambda memory: memory.brokers),
    "commands of a round with limits": (
        st.tuples(any_shedder, modes, inputs, seeds),
        lambda it: a_case(*it).close().commands,
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_properties_look_at_in_a_loop_is_there_in_some_examples(name: str) -> None:
    examples, looked_at = LOOKED_AT[name]
    once = settings(phases=[Phase.generate], derandomize=True, database=None, deadline=None)
    assert looked_at(find(examples, lambda it: bool(looked_at(it)), settings=once))
