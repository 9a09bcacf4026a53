"""Every file of decision vectors this version can be compared on is identical: decisions, order and state, doubles bit for bit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cli.conformance.run import compare
from cli.conformance.vectors import read_cases

OWN = Path(__file__).parents[1] / "data" / "vectors"
SHARED = Path(__file__).parents[2].parent / "shared" / "vectors"
COMPARED = ["ThresholdShedder", "ThresholdShedder.nasty", "AvgShedder", "AvgShedder.nasty"]


def results(file: Path) -> Counter[str]:
    """How many cases went how; a difference is shown by the assertion that looks at it."""
    verdicts = [compare(case) for case in read_cases(file)]
    parted = [verdict.differences[0] for verdict in verdicts if verdict.differences]
    assert not parted, parted[0]
    return Counter(verdict.result for verdict in verdicts)


@pytest.mark.parametrize("name", COMPARED)
def test_the_chosen_cases_are_identical(name: str) -> None:
    assert set(results(OWN / "shedding" / f"{name}.jsonl.gz")) == {"identical"}


def test_the_worked_examples_are_identical_and_strategies_of_later_versions_are_named() -> None:
    assert results(OWN / "worked.jsonl.gz") == {"identical": 21, "not in this version": 54}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the full vectors are not beside this clone")
@pytest.mark.parametrize("name", COMPARED)
def test_all_cases_are_identical(name: str) -> None:
    assert set(results(SHARED / "shedding" / f"{name}.jsonl.gz")) == {"identical"}
