"""`rebalancer replay -`: the decisions for records on standard input, line by line."""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from pulsar_rebalancer.lab.replay import decisions
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.printable import put
from sinks.recordings.copy_topic import of_recording
from sinks.wire.event_to_topic_rows import OutputRow


def pipe(settings: Settings, rejected: Path | None) -> None:
    """Decides the records on standard input, line by line."""
    with rejected.open("wb") if rejected is not None else nullcontext() as file:
        _write_answers(
            decisions.decide(of_recording("-"), settings.engine, settings.connections),
            sys.stdout.buffer,
            sys.stderr,
            file,
        )


def _write_answers(
    answers: Iterable[list[OutputRow]], out: IO[bytes], err: IO[str], rejected: IO[bytes] | None
) -> None:
    """Writes the commands of a round, then its record, and flushes before it reads the next record,
    so that any program can run the engine in a loop. Rejected records are one line each on `err`,
    and complete in `rejected` if given. Raises BrokenPipeError if the reader closed the pipe.
    """
    for rows in answers:
        decided = b"".join(row.value + b"\n" for row in rows if row.kind != "rejected")
        refused = [row for row in rows if row.kind == "rejected"]
        if decided:
            out.write(decided)
            out.flush()
        for row in refused:
            put(decisions.line(row), err)
        if refused and rejected is not None:
            rejected.write(b"".join(row.value + b"\n" for row in refused))
            rejected.flush()
