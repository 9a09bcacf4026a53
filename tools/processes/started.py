"""`rebalancer …` as a process for the time of a block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_PROJECT = Path(__file__).parents[2]


@contextmanager
def started(
    name: str, words: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """What it prints is added to `log`, tracebacks too. Killed at the end if it still runs."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_rebalancer.cli.main", name, *words],
            cwd=_PROJECT,
            env={**environment, "REBALANCER_DEBUG": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
