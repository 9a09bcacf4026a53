"""`rebalancer conformance`: compares a file of vectors, prints how many cases are identical and
where others differ.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli import console, exit_codes
from pulsar_rebalancer.lab.conformance.suites import NOT_LIVE, SUITES, CaseResult, compare
from pulsar_rebalancer.lab.conformance.vectors import Difference, read_cases
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from strategies.ordered_sum import ordered_sum


def run(
    file: Path,
    release: PulsarRelease | None = None,
    *,
    as_json: bool = False,
    first: int = 0,
    listed: bool = False,
) -> int:
    """Compares a file, prints the result, and returns the exit code: 0, or 5 if a decision, an
    order or a state differs. `release`: whose rules, by default those of the one that answered.

    Raises SettingsError for a file that cannot be compared: damaged, not vectors, or of an unknown
    class.
    """
    verdicts = [compare(case) for case in read_cases(file, release)]
    shown = [difference for verdict in verdicts for difference in verdict.differences][
        : max(0, first)
    ]
    if as_json:
        console.print_json("conformance", 1, _as_json(file, verdicts, shown, listed))
    else:
        for line in (
            *_list(verdicts if listed else ()),
            *_readable(shown),
            _summary(file, verdicts),
        ):
            console.say(line)
    return (
        exit_codes.DIFFERENT
        if any(verdict.result == "different" for verdict in verdicts)
        else exit_codes.OK
    )


def list_suites(*, as_json: bool = False) -> int:
    """Prints every suite with the classes of Pulsar that it covers and those that the live round
    uses, and returns the exit code 0.
    """
    suites: dict[str, list[str]] = {}
    live: dict[str, list[str]] = {}
    for suite, strategy in SUITES:
        suites.setdefault(suite, []).append(strategy)
        live.setdefault(suite, []).extend([] if (suite, strategy) in NOT_LIVE else [strategy])
    if as_json:
        console.print_json("conformance-suites", 1, {"suites": suites, "live": live})
    else:
        rows = [
            (name, ", ".join(of), _of_live_round(live[name], of)) for name, of in suites.items()
        ]
        console.show(
            console.Sheet(
                [("suite", "left"), ("of Pulsar", "left"), ("in the live round", "left")], rows
            )
        )
    return exit_codes.OK


def _of_live_round(live: Sequence[str], known: Sequence[str]) -> str:
    return "all" if live == known else ", ".join(live) or "none"


def _as_json(
    file: Path, verdicts: Sequence[CaseResult], shown: Sequence[Difference], listed: bool
) -> dict[str, Any]:
    results = Counter(verdict.result for verdict in verdicts)
    body: dict[str, Any] = {
        "file": str(file),
        "suite": ", ".join(sorted({verdict.case.suite for verdict in verdicts})),
        "strategy": ", ".join(sorted({verdict.case.strategy for verdict in verdicts})),
        "total": len(verdicts),
        "identical": results["identical"],
        "different": results["different"],
        # For readers of the first format: every class has an adapter now.
        "not_in_this_version": {},
        "rounds": ordered_sum(verdict.rounds for verdict in verdicts),
        "differences": [asdict(difference) for difference in shown],
    }
    if listed:
        body["cases"] = [
            {"id": verdict.case.id, "result": verdict.result, "rounds": verdict.rounds}
            for verdict in verdicts
        ]
    return body


def _list(verdicts: Sequence[CaseResult]) -> Iterator[str]:
    for verdict in verdicts:
        case = verdict.case
        rounds = counted(verdict.rounds, "round")
        yield f"{verdict.result:<19} {case.id} ({case.suite}/{case.strategy}, {rounds})"


def _readable(shown: Sequence[Difference]) -> Iterator[str]:
    for difference in shown:
        yield f"{difference.case}, round {difference.round}, {difference.field}"
        yield f"  expected {difference.expected}"
        yield f"  got      {difference.got}"


def _summary(file: Path, verdicts: Sequence[CaseResult]) -> str:
    results = Counter(verdict.result for verdict in verdicts)
    hint = " (--first 5 shows where)" if results["different"] else ""
    return (
        f"{file}: {results['identical']} of {len(verdicts)} cases identical, "
        f"{results['different']} different{hint}"
    )
