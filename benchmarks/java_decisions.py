"""`python -m benchmarks.java_decisions`: Pulsar's own classes and ours decide on the same cluster
in the same run. Who takes how long?

CPU time of the deciding thread on both sides, parity mode on ours. Java starts from its load data,
ours from the packed state of the live job. Java's TransferShedder finds the heaviest bundles of
every broker listed already, ours lists those of the brokers it looks at. Needs a JDK, and Maven the
first time; ends with 1 where these are missing or a decision differs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench_input import Size, cluster
from benchmarks.decisions import decision_options, measure
from benchmarks.figures import Sample, sample, say, table
from benchmarks.options import number
from benchmarks.pulsar_jars import RELEASE, NoPulsarError, cache_folder, pulsar_jars
from strategies.shedding.contract import Shedding

STRATEGIES = ("threshold", "avg", "overload", "uniform", "transfer")
#: Java answers with a set.
_WITHOUT_ORDER = frozenset({"transfer"})
_PROGRAM = Path(__file__).with_name("java") / "DecisionSpeed.java"
_NO_LOGS = _PROGRAM.with_name("log4j2.properties")

#: Source, bundle and destination of every decision, in order.
Decided = tuple[tuple[str, str, str | None], ...]


@dataclass(frozen=True, slots=True)
class JavaCost:
    """What the Java class took for a cluster, and what it decided; `input` is the digest of the
    figures it saw.
    """

    strategy: str
    size: Size
    input: str
    cpu_ms: Sample
    decided: Decided


@dataclass(frozen=True, slots=True)
class Comparison:
    """CPU ms per decision of both, how many times as much the Java class takes, and whether both
    decided the same.
    """

    strategy: str
    size: Size
    java_ms: Sample
    ours_ms: Sample
    ratio: float
    picked: int
    identical: bool


def main(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    """Prints the figures on standard output, what it is doing on standard error."""
    chosen = _options().parse_args(arguments)
    try:
        java = _run_java(_java(environment), pulsar_jars(cache_folder(environment)), chosen)
    except NoPulsarError as error:
        sys.exit(str(error))
    compared = [one for size in chosen.sizes for one in _compared(size, java, chosen.calls)]
    print(
        json.dumps(
            {"v": 1, "pulsar": RELEASE, "compared": [asdict(one) for one in compared]}, indent=2
        )
        if chosen.json
        else shown(compared)
    )
    if different := [f"{one.strategy} at {one.size}" for one in compared if not one.identical]:
        sys.exit(f"decisions differ from those of Pulsar {RELEASE}: {', '.join(different)}")


def shown(compared: Sequence[Comparison]) -> str:
    """One row per size and strategy."""
    title = (
        f"Decisions of Pulsar {RELEASE}'s classes and of ours in parity mode: CPU ms, median "
        "(min–max)"
    )
    return table(title, [_row(one) for one in compared])


def read_java(text: str) -> JavaCost:
    """One line of the Java program."""
    tree: Mapping[str, Any] = json.loads(text)
    decided = tuple(
        (source, bundle, destination) for source, bundle, destination in tree["decided"]
    )
    return JavaCost(
        tree["strategy"],
        Size(tree["brokers"], tree["bundles"]),
        tree["input"],
        sample(tree["cpu_ms"]),
        decided,
    )


def decided_by(shedding: Shedding) -> Decided:
    """The same of ours."""
    return tuple(
        (decision.source, decision.bundle, decision.destination) for decision in shedding.decisions
    )


def _compared(size: Size, java: Sequence[JavaCost], calls: int) -> list[Comparison]:
    say(f"ours, a cluster of {size}")
    given, result = cluster(size), []
    for theirs in (one for one in java if one.size == size):
        if theirs.input != given.digest:
            raise AssertionError("the two programs made up different clusters")
        cost, ours = measure(given, theirs.strategy, "parity", calls)
        ratio = theirs.cpu_ms.median / cost.cpu_ms.median
        identical = _are_identical(theirs, decided_by(ours))
        result.append(
            Comparison(
                theirs.strategy,
                size,
                theirs.cpu_ms,
                cost.cpu_ms,
                ratio,
                len(theirs.decided),
                identical,
            )
        )
    return result


def _are_identical(theirs: JavaCost, ours: Decided) -> bool:
    if theirs.strategy in _WITHOUT_ORDER:
        return len(ours) == len(theirs.decided) and set(ours) == set(theirs.decided)
    return ours == theirs.decided


def _java(environment: Mapping[str, str]) -> str:
    """The `java` of a JDK; a JRE cannot compile the program."""
    home = environment.get("JAVA_HOME")
    places = ([f"{home}/bin"] if home else []) + [environment.get("PATH", os.defpath)]
    for place in places:
        java = shutil.which("java", path=place)
        if java is not None and shutil.which("javac", path=place) is not None:
            return java
    raise NoPulsarError(
        "A JDK of Java 17 or newer is needed to run Pulsar's classes, and there is no `javac` "
        "in JAVA_HOME or on the PATH: "
        "install one (Debian: openjdk-17-jdk-headless) and try again."
    )


def _run_java(java: str, jars: Path, chosen: argparse.Namespace) -> list[JavaCost]:
    say(
        "Java: the compiler of its virtual machine warms up, then every size; the largest "
        "takes minutes"
    )
    sizes: Sequence[Size] = chosen.sizes
    wanted = [
        str(chosen.java_calls),
        ",".join(chosen.strategies),
        ",".join(f"{size.brokers}x{size.bundles}" for size in sizes),
    ]
    options = [
        "-Xmx3g",
        "-Duser.language=en",
        f"-Dlog4j2.configurationFile={_NO_LOGS}",
        "-cp",
        f"{jars}/*",
    ]
    found = []
    with subprocess.Popen(
        [java, *options, str(_PROGRAM), *wanted], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            found.append(read_java(line))
            say(f"  {found[-1].strategy} at {found[-1].size}: {found[-1].cpu_ms} ms")
    if process.returncode:
        raise NoPulsarError(
            f"The Java program ended with {process.returncode}; what it said stands above."
        )
    return found


def _row(one: Comparison) -> dict[str, object]:
    return {
        "brokers × bundles": f"{one.size}",
        "strategy": one.strategy,
        "Java": one.java_ms,
        "ours": one.ours_ms,
        "Java ÷ ours": f"{one.ratio:,.0f}×" if one.ratio >= 10 else f"{one.ratio:.2g}×",
        "bundles picked": one.picked,
        "same decisions": "yes" if one.identical else "NO",
    }


def _options() -> argparse.ArgumentParser:
    parser = decision_options("benchmarks.java_decisions", __doc__ or "")
    parser.add_argument(
        "--strategies",
        nargs="+",
        choices=STRATEGIES,
        default=STRATEGIES,
        help="which of them (default: all)",
    )
    number(parser, "--java-calls", 5, "Java's decisions that count")
    return parser


if __name__ == "__main__":
    main()
