"""Runs the job over a workshop's folder in a process of its own, to be stopped or killed: python -m
tests.spark.a_job FOLDER [RECORDS].
"""

import sys
from pathlib import Path

from strategies.errors import RebalancerError
from streaming.job import run_job
from tests.spark.workshop import Workshop, eager


def main(folder: Path, records: int) -> int:
    """Says on standard error what goes on, and on standard output, in one line, how it ended."""
    try:
        result = run_job(
            Workshop(folder).job(max_records_per_batch=records),
            eager(),
            on_progress=lambda progress: print(progress.line(), file=sys.stderr, flush=True),
        )
    except RebalancerError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(result.stopped_by, result.written.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000))
