"""Every file of decision vectors this version can be compared on is identical: decisions, order and
state, doubles bit for bit.
"""

from pathlib import Path

import pytest

from pulsar_rebalancer.lab.conformance.suites import SUITES, compare
from pulsar_rebalancer.lab.conformance.vectors import read_cases
from strategies.java.pulsar_versions_and_defaults import PulsarRelease

OWN = Path(__file__).parents[1] / "data" / "vectors"
SHARED = Path(__file__).parents[2].parent / "shared" / "vectors"
_BESIDE = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the full vectors are not beside this clone"
)
WHOLE, WHOLE_50 = (pytest.mark.variant, _BESIDE), (pytest.mark.lab, _BESIDE)


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


@pytest.mark.parametrize(
    ("file", "release"),
    [
        *((OWN / name, None) for name in files(OWN)),
        *((OWN / name, "5.0") for name in answered_by_42(OWN)),
        *(pytest.param(SHARED / name, None, marks=WHOLE) for name in files(SHARED)),
        *(pytest.param(SHARED / name, "5.0", marks=WHOLE_50) for name in answered_by_42(SHARED)),
    ],
    ids=lambda it: "/".join(it.parts[-2:]) if isinstance(it, Path) else str(it),
)
def test_all_cases_are_identical(file: Path, release: PulsarRelease | None) -> None:
    """With the rules of the release that answered, or of one that answers alike."""
    verdicts = [compare(case) for case in read_cases(file, release)]
    parted = [verdict.differences[0] for verdict in verdicts if verdict.differences]
    assert not parted, parted[0]
    assert {verdict.result for verdict in verdicts} == {"identical"}


@_BESIDE
@pytest.mark.variant
def test_only_the_cuts_that_42_refuses_differ_with_50() -> None:
    """They are the cases of suite splits50."""
    compared = [compare(case) for case in read_cases(SHARED / "splits/algorithms.jsonl.gz", "5.0")]

    assert {one.case.id for one in compared if one.differences} == {
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
