"""Every file of decision vectors this version can be compared on is identical: decisions, order and
state, doubles bit for bit.
"""

from collections import Counter
from pathlib import Path

import pytest

from pulsar_rebalancer.lab.conformance.suites import SUITES, compare
from pulsar_rebalancer.lab.conformance.vectors import read_cases
from strategies.java.pulsar_releases import PulsarRelease

OWN = Path(__file__).parents[1] / "data" / "vectors"
SHARED = Path(__file__).parents[2].parent / "shared" / "vectors"


def files(folder: Path) -> list[str]:
    """All files of vectors below a folder, as `suite/strategy.jsonl.gz`."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.jsonl.gz"))


#: Where 5.0 has rules of its own: suites placement50 and splits50 hold its answers.
CHANGED = {"placement/AvgShedder.jsonl.gz", "splits/algorithms.jsonl.gz"}


def answered_by_42(folder: Path) -> list[str]:
    """Files of Pulsar 4.2 whose answers 5.0 gives too."""
    return [
        name for name in files(folder) if "/" in name and "50/" not in name and name not in CHANGED
    ]


def results(file: Path, release: PulsarRelease | None = None) -> Counter[str]:
    """How many cases went how; a difference is shown by the assertion that looks at it."""
    verdicts = [compare(case) for case in read_cases(file, release)]
    parted = [verdict.differences[0] for verdict in verdicts if verdict.differences]
    assert not parted, parted[0]
    return Counter(verdict.result for verdict in verdicts)


@pytest.mark.parametrize("name", files(OWN))
def test_the_chosen_cases_are_identical(name: str) -> None:
    assert set(results(OWN / name)) == {"identical"}


@pytest.mark.variant
@pytest.mark.skipif(not SHARED.is_dir(), reason="the full vectors are not beside this clone")
@pytest.mark.parametrize("name", files(SHARED))
def test_all_cases_are_identical(name: str) -> None:
    assert set(results(SHARED / name)) == {"identical"}


@pytest.mark.parametrize("name", answered_by_42(OWN))
def test_the_rules_of_50_answer_the_chosen_cases_alike(name: str) -> None:
    assert set(results(OWN / name, "5.0")) == {"identical"}


@pytest.mark.lab
@pytest.mark.skipif(not SHARED.is_dir(), reason="the full vectors are not beside this clone")
@pytest.mark.parametrize("name", answered_by_42(SHARED))
def test_the_rules_of_50_answer_all_cases_alike(name: str) -> None:
    assert set(results(SHARED / name, "5.0")) == {"identical"}


@pytest.mark.variant
@pytest.mark.skipif(not SHARED.is_dir(), reason="the full vectors are not beside this clone")
def test_only_the_cuts_that_42_refuses_differ_with_50() -> None:
    """They are the cases of suite splits50."""
    compared = [compare(case) for case in read_cases(SHARED / "splits/algorithms.jsonl.gz", "5.0")]

    assert {one.case for one in compared if one.differences} == {
        case.envelope.id.replace("50", "", 2)
        for case in read_cases(OWN / "splits50/algorithms50.jsonl.gz")
    }


def test_the_answers_of_50_are_not_those_of_the_rules_of_42() -> None:
    for name in ("placement50/AvgShedder50", "splits50/algorithms50"):
        compared = [compare(case) for case in read_cases(OWN / f"{name}.jsonl.gz", "4.2")]
        assert {one.result for one in compared} >= {"different"}


def test_every_suite_has_a_file_of_its_own() -> None:
    of_files = {
        (case.envelope.suite, case.envelope.strategy)
        for name in files(OWN)
        for case in read_cases(OWN / name)
    }
    assert of_files == set(SUITES)
