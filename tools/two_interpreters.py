"""Compares what two interpreters publish, byte for byte: all recordings under each strategy and
mode, 20 demos, the scenarios of tests/golden, and figures of simulations.

    python -m tools.two_interpreters python3.13
    python -m tools.two_interpreters replay demo env GLIBC_TUNABLES=… python3.13

The arguments are the command of the other interpreter, which has the packages of
requirements/executor.lock and runs this checkout; kinds of runs before it select some. Without
a command, the module prints digests. Takes minutes. Exit code 0: all is equal; 1: something
differs, and is named.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import StringIO
from itertools import chain, product, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from pulsar_rebalancer.lab.demo.plan import TOPICS, DemoPlan, prepare_folder, write_settings
from pulsar_rebalancer.lab.demo.run import run_demo
from pulsar_rebalancer.lab.demo.screen import Screen
from pulsar_rebalancer.lab.replay.decisions import decide
from pulsar_rebalancer.lab.requested_runs import RunRequest
from pulsar_rebalancer.lab.simulation.scenario_loop import run
from pulsar_rebalancer.lab.strategy_goal import goal_of
from pulsar_rebalancer.settings.merge_sources import load
from sinks.recordings.copy_topic import of_recording
from strategies.shedding.registry import DEFAULT, SHEDDERS
from tests.golden.scenario import play, read_scenario, split_file

ROOT = Path(__file__).parents[1]
#: The second folder is there where `shared` is beside the clone.
RECORDINGS = ("tests/data/recordings", "../shared/recordings")
SIMULATED = ("e4-threshold-over-unloading", "hot-bundle", "broker-dies")
Digest = tuple[str, str]


def digests(kinds: Sequence[str]) -> Iterator[Digest]:
    """Name of each run → digest of what it publishes or prints."""
    for name, parts in chain.from_iterable(_RUNS[kind]() for kind in kinds):
        whole = b"\n".join(parts)
        yield name, f"{sha256(whole).hexdigest()[:16]} of {len(whole)} bytes"


def differences(ours: Sequence[Digest], theirs: Sequence[Digest]) -> list[str]:
    """The names of runs that differ, or are missing on one side."""
    return sorted({name for name, _ in {*ours} ^ {*theirs}})


def digests_of(command: Sequence[str], kinds: Sequence[str] = ()) -> list[Digest]:
    """The digests that an interpreter prints. Raises CalledProcessError."""
    printed = subprocess.run(
        [*command, "-m", "tools.two_interpreters", *kinds],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return [(name, digest) for name, digest in (one.split("\t") for one in printed.splitlines())]


def _replays() -> Iterator[tuple[str, Iterator[bytes]]]:
    files = {file.name: file for one in RECORDINGS for file in (ROOT / one).glob("*.jsonl.gz")}
    for name, strategy, mode in product(sorted(files), SHEDDERS, ("fixed", "parity")):
        settings = load(flags=[f"shedding.strategy={strategy}", f"shedding.mode={mode}"])
        rows = decide(of_recording(files[name]), settings.engine, settings.connections)
        yield f"replay {name} {strategy}/{mode}", (row.value for row in chain.from_iterable(rows))


def _demos() -> Iterator[tuple[str, Iterator[bytes]]]:
    for seed in range(1, 21):
        with TemporaryDirectory() as parent:
            folder = prepare_folder(Path(parent) / "demo", keep=False)
            plan = DemoPlan(DEFAULT, "fixed", 20, seed, "plain", folder)
            write_settings(plan)
            engine = load(plan.settings_file).engine
            goal = goal_of(engine)
            run_demo(plan, engine, goal, Screen(Console(file=StringIO()), goal))
            files = sorted(one for name in TOPICS for one in plan.topic(name).glob("segment-*"))
            yield f"demo of seed {seed}", (file.read_bytes() for file in files)


def _scenarios() -> Iterator[tuple[str, Iterator[bytes]]]:
    for file in sorted((ROOT / "tests/golden/scenarios").glob("*.txt")):
        head, _ = split_file(file)
        yield f"scenario {file.stem}", (line.encode() for line in play(read_scenario(head)))


def _simulations() -> Iterator[tuple[str, Iterator[bytes]]]:
    for scenario in SIMULATED:
        done = run(RunRequest(scenario, 1).task())
        moves = (repr(one).encode() for one in done.timeline.moves)
        yield f"simulation of {scenario}", chain([repr(done.figures).encode()], moves)


_RUNS = {"replay": _replays, "demo": _demos, "scenario": _scenarios, "simulation": _simulations}


def main(arguments: Sequence[str]) -> int:
    """Prints the digests of this interpreter, or how those of the other one differ."""
    kinds = [*takewhile(_RUNS.__contains__, arguments)]
    other = arguments[len(kinds) :]
    if not other:
        for name, digest in digests(kinds or [*_RUNS]):
            print(name, digest, sep="\t", flush=True)
        return 0
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(digests_of, [[sys.executable], other], [kinds, kinds])
    different = differences(ours, theirs)
    for name in different:
        print(f"differs: {name}")
    print(f"{len(ours)} runs, different: {len(different)}")
    return 1 if different or not ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
