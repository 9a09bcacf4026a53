"""The job with all topics on Pulsar, killed again and again while a recording is published.

    python -m tools.kills.kill_pulsar_job --kills 10 --seed 7 --partitions 4 RECORDING

Each life of the job ends by SIGKILL of the driver, Java and the Python workers, a drawn time after
the start or after it has begun a micro-batch. What is on the topics in the end, each record
counted once, must be what the plain loop makes of the recording. Exit code 0: nothing was lost,
nothing differs; 1: something does.
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from sinks.recordings.json_lines import open_recording
from tests.replayed import replayed
from tools.kills.compared_topics import Comparison, compare
from tools.kills.kill_job import newest_batch
from tools.kills.kill_options import BATCHES_TAKE_S, START_TAKES_S, options, say, scratch, verdict
from tools.processes.real_job import TOPICS, RealJob
from tools.servers.pulsar_cluster import PulsarCluster, pulsar_cluster
from tools.servers.pulsar_topics import put, values

Say = Callable[[str], None]
_BATCHES_PER_LIFE = 8


def run(
    cluster: PulsarCluster,
    folder: Path,
    lines: Sequence[bytes],
    *,
    kills: int,
    seed: int,
    partitions: int = 0,
    say: Say = lambda _: None,
) -> list[Comparison]:
    """Publishes the lines piece by piece over as many lives as there are kills, lets a last life
    finish, and compares.
    """
    rng = random.Random(seed)
    uris = {
        name: cluster.topic(f"faults/kill-{partitions}-{seed}/{name}", partitions)
        for name in TOPICS
    }
    assignments = [word for name, uri in uris.items() for word in ("--set", f"topics.{name}={uri}")]
    bounds = [len(lines) * i // (kills + 1) for i in range(kills + 2)]
    pieces = [lines[a:b] for a, b in pairwise(bounds)]
    with RealJob(folder, max_records_per_batch=max(1, len(pieces[0]) // _BATCHES_PER_LIFE)) as job:
        for number, piece in enumerate(pieces[:-1]):
            before = newest_batch(job.checkpoint)
            put(cluster, uris["telemetry"], piece[: len(piece) // 2])
            job.start(*assignments)
            in_batch = number % 3 != 2
            if in_batch:
                job.wait_until(lambda last=before: newest_batch(job.checkpoint) > last)  # type: ignore[misc]
            put(cluster, uris["telemetry"], piece[len(piece) // 2 :])
            time.sleep(rng.uniform(0, BATCHES_TAKE_S if in_batch else START_TAKES_S))
            say(
                f"kill {number + 1}: {job.kill()} processes, "
                f"{newest_batch(job.checkpoint) - before} micro-batches after the last life"
            )
        put(cluster, uris["telemetry"], pieces[-1])
        job.drain(*assignments)
        reference = replayed(lines, job.engine)
    return [
        compare(kind, values(cluster, uris[kind]), reference[kind])
        for kind in ("commands", "rounds")
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("tools.kills.kill_pulsar_job", __doc__ or "", kills=10)
    parser.add_argument(
        "--partitions",
        type=int,
        default=0,
        help="of every topic; 0 = topics without partitions (0)",
    )
    given = parser.parse_args(arguments)
    began, lines = time.monotonic(), list(open_recording(given.recording))
    with scratch("kill-pulsar", "cluster") as (own, job), pulsar_cluster(own) as cluster:
        found = run(
            cluster,
            job,
            lines,
            kills=given.kills,
            seed=given.seed,
            partitions=given.partitions,
            say=say,
        )
    return verdict(
        found,
        f"{given.kills} kills in {time.monotonic() - began:.0f} s: what was published",
        "the plain replay",
    )


if __name__ == "__main__":
    sys.exit(main())
