"""Plays the cases of a file of vectors and says where they part from what Java did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsar_rebalancer.lab.conformance.comparing import Difference, differences
from pulsar_rebalancer.lab.conformance.suites import Suite, suite_of
from pulsar_rebalancer.lab.conformance.vectors import Case
from strategies.errors import SettingsError


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went. `differences` are those of its first round that differs: what follows from a
    difference says nothing new.
    """

    case: str
    suite: str
    strategy: str
    rounds: int
    result: Literal["identical", "different"]
    differences: tuple[Difference, ...] = ()


def compare(case: Case) -> CaseResult:
    """Plays one case and compares round by round, up to the first that differs."""
    envelope = case.envelope
    rounds, found = _play(case, suite_of(case))
    return CaseResult(
        envelope.id,
        envelope.suite,
        envelope.strategy,
        rounds,
        "different" if found else "identical",
        tuple(found),
    )


def _play(case: Case, suite: Suite) -> tuple[int, list[Difference]]:
    number = 0
    try:
        for number, (expected, got) in enumerate(suite(case), start=1):
            if found := differences(case.envelope.id, number, expected, got):
                return number, found
    except SettingsError as error:
        raise SettingsError(
            [
                text if text.startswith(case.where) else f"{case.where}: {text}"
                for text in error.complaints
            ]
        ) from error
    return number, []
