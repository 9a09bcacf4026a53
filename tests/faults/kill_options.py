"""What the programs that kill a job over and over are told on their command line, and what they say
of the topics in the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tests.faults.topics import Comparison


def kill_options(module: str, text: str, kills: int) -> argparse.ArgumentParser:
    """`text`: the docstring of the program; `kills`: how many if nobody says."""
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


def told(comparisons: Sequence[Comparison]) -> bool:
    """Prints what was found on each topic; whether nothing is wrong."""
    for one in comparisons:
        print(
            f"{one.topic}: {one.records} records, {one.repeated} published again, {one.torn} "
            "torn lines"
        )
    faults = [fault for one in comparisons for fault in one.faults]
    for fault in faults:
        print(f"fault: {fault}")
    return not faults
