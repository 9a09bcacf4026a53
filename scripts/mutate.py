"""Do the tests without servers notice a small fault? `python -m scripts.mutate --seed 7 --count 60`
makes 60, one at a time, in copies.

A first run of `tests/unit`, `tests/lab` and `tests/golden` notes which functions each test enters.
Of a mutant, those that enter its function run, the quickest first; of a mutant outside of
functions, those of modules that import its own; then, of the streaming job, tests/spark, and of all
tests/properties and tests/conformance. One line per mutant; exit code 1 if one survived.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import FrameType
from typing import Any, NamedTuple

import pytest

from scripts.mutants import AREAS, Mutant, drawn, line_of

#: Tests of a mutant that run first.
_FIRST = 40
_FOLDERS = ["tests/unit", "tests/lab", "tests/golden"]
#: What they enter is not noted, because it takes most of the time: they run when all others pass.
_REST, _REST_S = ["tests/properties", "tests/conformance"], 1_800
_OPTIONS = [
    "-q",
    "-p",
    "no:cacheprovider",
    "--hypothesis-profile=quick",
    "--hypothesis-seed=0",
]
_QUICK, _SPARK = "not (spark or servers or lab or slow)", "not (servers or variant or lab or slow)"


class Entered(NamedTuple):
    """One test of the first run: what it entered, as file:first line, and how long it took."""

    test: str
    seconds: float
    functions: frozenset[str]


_HERE = f"{Path(__file__).parents[1]}/"
_entered: list[set[str]] = []


def _see(frame: FrameType, event: str, _: object) -> None:
    file, _, below = frame.f_code.co_filename.partition(_HERE)
    if not file and _entered and below.startswith(tuple(AREAS)):
        _entered[-1].add(f"{below}:{frame.f_code.co_firstlineno}")


def _noted(name: str, scope: str) -> Iterator[Any]:
    _entered.append(set())
    sys.settrace(_see)
    threading.settrace(_see)
    started = time.perf_counter()
    result = yield
    functions = _entered.pop()
    if not _entered:
        sys.settrace(None)
    elif scope == "function":
        _entered[-1].update(functions)
    with Path(os.environ["MUTATE_NOTES"]).open("ab", buffering=0) as notes:
        notes.write(
            json.dumps([name, time.perf_counter() - started, sorted(functions)]).encode() + b"\n"
        )
    return result


if "MUTATE_NOTES" in os.environ:

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
        """Notes what one test enters."""
        return (yield from _noted(item.nodeid, "test"))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[Any]:
        """What a fixture of several tests enters counts for all tests of the file."""
        if fixturedef.scope == "function":
            return (yield)
        return (yield from _noted(request.node.nodeid.partition("::")[0], fixturedef.scope))


def first_run(tree: Path, notes: Path) -> list[Entered]:
    """What each test enters. The notes are there only once they are complete: with a part of the
    tests, faults would seem to survive.
    """
    if not notes.exists():
        part = notes.with_name(f"{notes.name}.part")
        part.unlink(missing_ok=True)
        chosen = [*_FOLDERS, *_OPTIONS, "-m", _QUICK, "-n", "2", "-p", "scripts.mutate"]
        if _pytest(tree, chosen, 1_800, {"MUTATE_NOTES": str(part)}) is None:
            raise SystemExit("the tests did not end within 30 minutes")
        part.rename(notes)
    lines: list[tuple[str, float, list[str]]] = [
        json.loads(line) for line in notes.read_text("utf-8").splitlines()
    ]
    shared: dict[str, set[str]] = {}
    for name, _, functions in lines:
        if "::" not in name:
            shared.setdefault(name, set()).update(functions)
    tests = {name: (took, functions) for name, took, functions in lines if "::" in name}
    return [
        Entered(name, took, frozenset({*functions, *shared.get(name.partition("::")[0], ())}))
        for name, (took, functions) in tests.items()
    ]


def _chosen(root: Path, mutant: Mutant, tests: Sequence[Entered]) -> list[Entered]:
    """Those that may notice, by file, the quickest file first."""
    if mutant.function:
        found = [one for one in tests if f"{mutant.file}:{mutant.function}" in one.functions]
    else:
        users = _users(root, mutant.file) | {"tests/golden/test_settings.py"}
        found = [
            one
            for one in tests
            if _file(one.test) in users
            or any(name.partition(":")[0] in users for name in one.functions)
        ]
    files: dict[str, float] = {}
    for one in found:
        files[_file(one.test)] = files.get(_file(one.test), 0.0) + one.seconds
    return sorted(found, key=lambda one: (files[_file(one.test)], _file(one.test)))


def _users(root: Path, file: str) -> set[str]:
    """A module, and those of the areas and tests that import it."""
    line = f"from {file.removesuffix('.py').replace('/', '.')} import"
    folders = [*AREAS, *_FOLDERS]
    return {
        file,
        *(
            str(path.relative_to(root))
            for one in folders
            for path in (root / one).rglob("*.py")
            if line in path.read_text("utf-8")
        ),
    }


def _file(test: str) -> str:
    return test.partition("::")[0]


def _pytest(
    tree: Path, arguments: Sequence[str], limit_s: float, more: Mapping[str, str] | None = None
) -> str | None:
    """What pytest prints; None after the limit."""
    command = [sys.executable, "-m", "pytest", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        **(more or {}),
    }
    with subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            return run.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            return None


def verdict(tree: Path, mutant: Mutant, tests: Sequence[Entered]) -> str:
    """Makes the mutant in a copy of the tree, and names the first test that fails."""
    chosen = _chosen(tree, mutant, tests)
    path = tree / mutant.file
    before = path.read_bytes()
    path.write_bytes(before[: mutant.span[0]] + mutant.new.encode() + before[mutant.span[1] :])
    try:
        for some in filter(None, (chosen[:_FIRST], chosen[_FIRST:])):
            ids = tree / "mutant-tests.txt"
            ids.write_text("\n".join(one.test for one in some), "utf-8")
            if found := _caught(tree, [f"@{ids}"], 60 + 10 * sum(one.seconds for one in some)):
                return f"caught by {found}"
        if mutant.file.startswith("streaming/") and (
            found := _caught(tree, ["tests/spark"], _REST_S, _SPARK)
        ):
            return f"caught by {found}"
        if found := _caught(tree, _REST, _REST_S):
            return f"caught by {found}"
    finally:
        path.write_bytes(before)
    return f"survived {len(chosen)} tests"


def _caught(tree: Path, tests: Sequence[str], limit_s: float, marks: str = _QUICK) -> str:
    """By which test, or else how; empty if all of them pass."""
    shown = _pytest(tree, ["-x", "--tb=no", *tests, *_OPTIONS, "-m", marks], limit_s)
    if shown is None:
        return "the time-out"
    failed = next((line for line in shown.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    last = shown.strip().splitlines()[-1]
    return failed.split(" ")[1] if failed else "" if " passed" in last else f"pytest: {last}"


def copied(root: Path, tree: Path) -> Path:
    """The tree without what tests do not need."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info"
    )
    return Path(shutil.copytree(root, tree, ignore=left_out))


def main(arguments: Sequence[str]) -> int:
    """Prints one line per mutant. Returns 1 if one survived."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument(
        "--skip",
        type=int,
        default=0,
        help="leave out this number of mutants, to go on with a run of the same seed",
    )
    parser.add_argument(
        "--only", default="", help="a path's beginning: mutants of these files only"
    )
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument(
        "--notes",
        type=Path,
        help="what the tests enter: made if it does not exist, used again if it does",
    )
    options = parser.parse_args(arguments)
    root = Path(__file__).parents[1]
    chosen = [
        one
        for one in drawn(root, options.seed, options.count)[options.skip :]
        if one.file.startswith(options.only)
    ]
    if options.list:
        print(*map(line_of, chosen), sep="\n")
        return 0
    os.nice(19)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        free: Queue[Path] = Queue()
        for number in range(options.at_once):
            free.put(copied(root, Path(folder) / f"tree{number}"))
        tests = first_run(Path(folder) / "tree0", options.notes or Path(folder) / "notes")

        def one(mutant: Mutant) -> str:
            tree = free.get()
            try:
                found = verdict(tree, mutant, tests)
            finally:
                free.put(tree)
            print(f"{line_of(mutant)}: {found}", flush=True)
            return found

        survived = sum(found.startswith("survived") for found in pool.map(one, chosen))
    print(f"seed {options.seed}: {len(chosen) - survived} of {len(chosen)} mutants caught")
    return survived > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
