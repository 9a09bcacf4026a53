"""Asks the classes of Apache Pulsar about histories nobody has seen, and compares their answers
with ours.

`python -m benchmarks.java_vectors --suite shedding --strategy ThresholdShedder --cases 500`
"""

import argparse
import gzip
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.java_vectors.histories import HISTORIES, written
from benchmarks.java_vectors.oracle import Oracle
from benchmarks.java_vectors.rederived import rederived
from benchmarks.pulsar_jars import NoPulsarError
from pulsar_rebalancer.lab.conformance.suites import compare
from pulsar_rebalancer.lab.conformance.vectors import Difference, read_cases
from strategies.errors import SettingsError

OK, DIFFERENT, UNUSABLE = 0, 5, 2


def main(words: list[str]) -> int:
    """Exit code 0 when everything is identical, 5 when something differs, 2 when Pulsar's classes
    cannot be asked.
    """
    wanted = _arguments().parse_args(words)
    names = [
        name
        for name in HISTORIES
        if wanted.suite in (None, name[0]) and wanted.strategy in (None, name[1])
    ]
    if not names:
        print(
            "no such suite or strategy; there are "
            f"{', '.join('/'.join(name) for name in HISTORIES)}",
            file=sys.stderr,
        )
        return UNUSABLE
    try:
        oracle = Oracle.ready()
        if wanted.rederive:
            return DIFFERENT if sum(_rederived(oracle, file) for file in wanted.rederive) else OK
        found = [_compared(oracle, name, wanted) for name in names]
    except (NoPulsarError, SettingsError) as error:
        print(error, file=sys.stderr)
        return UNUSABLE
    return DIFFERENT if any(found) else OK


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make vectors-java",
        description="Compare our decisions with those of Pulsar's own classes.",
    )
    parser.add_argument("--suite", help="only this suite")
    parser.add_argument("--strategy", help="only this strategy")
    parser.add_argument(
        "--cases", type=int, default=100, help="histories per strategy (default: 100)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="another seed gives other histories (default: 1)"
    )
    parser.add_argument(
        "--nasty", action="store_true", help="with NaN, infinities and negative numbers"
    )
    parser.add_argument("--keep", type=Path, help="write the cases that differ here (.jsonl.gz)")
    parser.add_argument(
        "--rederive",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="does the program give back the answers of stored vectors?",
    )
    return parser


def _rederived(oracle: Oracle, file: Path) -> int:
    total, different = rederived(oracle, file)
    print(
        f"{file}: {total - len(different)} of {total} answers given "
        f"back{''.join(f', not {case}' for case in different[:1])}",
        flush=True,
    )
    return len(different)


def _compared(oracle: Oracle, name: tuple[str, str], wanted: argparse.Namespace) -> int:
    """Prints how many of the histories are identical and where the first one is not; answers how
    many are not.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rebalancer-java-") as folder:
        file = Path(folder, "cases.jsonl")
        oracle.ask(written(name, wanted.cases, wanted.seed, nasty=wanted.nasty), file)
        rounds, differing = 0, list[tuple[bytes, Difference]]()
        for case in read_cases(file):
            verdict = compare(case)
            rounds += verdict.rounds
            differing += [(case.line, difference) for difference in verdict.differences[:1]]
    seconds = time.monotonic() - started
    print(
        f"{'/'.join(name)}{' nasty' if wanted.nasty else ''}, seed {wanted.seed}: "
        f"{wanted.cases - len(differing)} of {wanted.cases} "
        f"histories identical ({rounds} rounds, {seconds:.0f} s)",
        flush=True,
    )
    for line in _shown([difference for _, difference in differing]):
        print(line)
    if wanted.keep and differing:
        with gzip.open(wanted.keep, "ab") as kept:
            kept.writelines(line.rstrip(b"\n") + b"\n" for line, _ in differing)
    return len(differing)


def _shown(differing: list[Difference]) -> Iterator[str]:
    for first in differing[:1]:
        yield f"  first: {first.case}, round {first.round}, {first.field}"
        yield f"    Java {first.expected}"
        yield f"    ours {first.got}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
