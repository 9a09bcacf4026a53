"""Reads records from a pipe and writes decisions to another, round by round, so that any program
can run the engine in a loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from rebalancer.analysis.replay.decisions import line
from sinks.wire.output_rows import OutputRow


def answer(
    answers: Iterable[list[OutputRow]], out: IO[bytes], err: IO[str], rejected: IO[bytes] | None
) -> None:
    """Writes the commands of a round, then its record, and flushes before it reads the next record.

    Rejected records are one line each on `err`, and complete on `rejected` if given. Raises
    BrokenPipeError if the reader closed the pipe.
    """
    for rows in answers:
        decided = [row.value + b"\n" for row in rows if row.kind != "rejected"]
        refused = [row for row in rows if row.kind == "rejected"]
        if decided:
            out.write(b"".join(decided))
            out.flush()
        for row in refused:
            print(line(row), file=err, flush=True)
        if refused and rejected is not None:
            rejected.write(b"".join(row.value + b"\n" for row in refused))
            rejected.flush()
