"""Every file of decision vectors this version can be compared on is identical: decisions, order and
state, doubles bit for bit.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rebalancer.conformance.play_vectors import compare
from rebalancer.conformance.suites import SUITES
from rebalancer.conformance.vectors import read_cases

OWN = Path(__file__).parents[1] / "data" / "vectors"
SHARED = Path(__file__).parents[2].parent / "shared" / "vectors"


def files(folder: Path) -> list[str]:
    """All files of vectors below a folder, as `suite/strategy.jsonl.gz`."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.jsonl.gz"))


def results(file: Path) -> Counter[str]:
    """How many cases went how; a difference is shown by the assertion that looks at it."""
    verdicts = [compare(case) for case in read_cases(file)]
    parted = [verdict.differences[0] for verdict in verdicts if verdict.differences]
    assert not parted, parted[0]
    return Counter(verdict.result for verdict in verdicts)


@pytest.mark.parametrize("name", files(OWN))
def test_the_chosen_cases_are_identical(name: str) -> None:
    assert set(results(OWN / name)) == {"identical"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the full vectors are not beside this clone")
@pytest.mark.parametrize("name", files(SHARED))
def test_all_cases_are_identical(name: str) -> None:
    suite = name.partition("/")[0]
    if suite.endswith("50") and suite not in {known for known, _ in SUITES}:
        pytest.skip(
            f"suite {suite} is of Pulsar 5.0, which this version does not claim parity with"
        )
    assert set(results(SHARED / name)) == {"identical"}


def test_every_suite_has_a_file_of_its_own() -> None:
    of_files = {
        (case.envelope.suite, case.envelope.strategy)
        for name in files(OWN)
        for case in read_cases(OWN / name)
    }
    assert of_files == set(SUITES)
