"""Options of the programs that kill a job over and over, and what these programs print of
the topics in the end.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.kills.compared_topics import Comparison

#: A kill within this time after the start hits Spark while it starts.
START_TAKES_S = 12.0
#: A kill within this time after a micro-batch was begun hits it, or one of the next.
BATCHES_TAKE_S = 3.0


def options(module: str, text: str, kills: int) -> argparse.ArgumentParser:
    """`text`: the docstring of the program; `kills`: the default number."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=text.splitlines()[0])
    parser.add_argument(
        "recording", type=_file, help="recording with load reports (.jsonl, .jsonl.gz, .jsonl.zst)"
    )
    parser.add_argument(
        "--kills", type=int, default=kills, help=f"how often the job is killed ({kills})"
    )
    parser.add_argument("--seed", type=int, default=7, help="decides the moments (7)")
    return parser


def _file(text: str) -> Path:
    if not (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a file")
    return path


@contextmanager
def scratch(program: str, server: str) -> Iterator[tuple[Path, Path]]:
    """A folder for the server and one for the job, deleted at the end."""
    with tempfile.TemporaryDirectory(prefix=f"{program}-") as folder:
        (Path(folder) / server).mkdir()
        yield Path(folder) / server, Path(folder) / "job"


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def verdict(comparisons: Sequence[Comparison], found: str, reference: str) -> int:
    """Prints what was found on each topic, and whether `found` equals the `reference`; the exit
    code.
    """
    for one in comparisons:
        print(
            f"{one.topic}: {one.records} records, {one.repeated} published again, {one.torn} "
            "torn lines"
        )
    faults = [fault for one in comparisons for fault in one.faults]
    for fault in faults:
        print(f"fault: {fault}")
    print(f"{found} {'differs from' if faults else 'equals'} {reference}")
    return 1 if faults else 0
