"""Kills the running job again and again while a recording is published, and compares what comes out
with an undisturbed run.

    python -m tools.kills.kill_job --kills 20 --seed 7 RECORDING

Each life of the job ends by SIGKILL of the driver, Java and the Python workers at a moment drawn
from the seed: while Spark starts, in the middle of a micro-batch, or just when a micro-batch has
begun to append to a topic. The publisher dies along with it, in the middle of a line. The next life
goes on from the checkpoint, the next publisher repeats its line.
Needs Linux, Java 17 or newer, and about 15 s per kill. Exit code 0: nothing was lost, nothing
differs; 1: something does.
"""

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.recordings.json_lines import open_recording
from sinks.topics.files.topic import FileTopicReader
from tools.kills.compared_topics import IDENTITY, Comparison, compare
from tools.kills.kill_options import START_TAKES_S, options, say, verdict
from tools.processes.real_job import RealJob

Moment = Literal["start", "batch", "append"]
Say = Callable[[str], None]
Topics = Mapping[str, Sequence[bytes]]
#: Of ten kills, two hit Spark's start, five a micro-batch somewhere, three the time between an
#: append and the commit of its batch.
_MOMENTS: tuple[Moment, ...] = ("start",) * 2 + ("batch",) * 5 + ("append",) * 3
_BATCH_TAKES_S = 0.4
#: Micro-batches that the work of one life makes.
_BATCHES_PER_LIFE = 8


@dataclass(frozen=True, slots=True)
class Kill:
    """When to kill: `batches` after the first one of this life was begun, `delay_s` after the
    moment itself has come.
    """

    moment: Moment
    batches: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class Death:
    """What a kill hit: how many processes, and whether this life had begun a micro-batch and not
    committed it.
    """

    kill: Kill
    processes: int
    in_batch: bool


@dataclass(frozen=True, slots=True)
class Result:
    """All deaths, and the output topics against the undisturbed run."""

    deaths: tuple[Death, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def faults(self) -> list[str]:
        return [fault for comparison in self.comparisons for fault in comparison.faults]


def plan(kills: int, seed: int) -> list[Kill]:
    """The same kills for the same seed; the first three are one of each moment, so that a short run
    sees all of them.
    """
    rng = random.Random(seed)
    each: list[Moment] = ["start", "batch", "append"]
    moments: list[Moment] = [*rng.sample(each, 3), *(rng.choice(_MOMENTS) for _ in range(kills))][
        :kills
    ]
    return [_kill(rng, moment) for moment in moments]


def run(
    folder: Path,
    lines: Sequence[bytes],
    kills: Sequence[Kill],
    say: Say = lambda _: None,
    *,
    spark_reference: bool = False,
) -> Result:
    """Publishes the lines piece by piece over as many lives as there are kills, lets a last life
    finish, and compares.

    The reference is the plain loop over the same topic; with `spark_reference`, a run of the same
    job that is not killed.
    """
    pieces = _pieces(lines, len(kills) + 1)
    deaths = []
    with RealJob(
        folder / "killed", max_records_per_batch=max(1, len(pieces[0]) // _BATCHES_PER_LIFE)
    ) as job:
        for number, (kill, piece) in enumerate(zip(kills, pieces, strict=False), 1):
            deaths.append(_live_and_die(job, piece, kill))
            job.tear(pieces[number][0])
            say(f"kill {number}: {_described(deaths[-1])}")
        job.publish(pieces[-1])
        # In larger batches than before: how the rest is cut must not matter either.
        job.drain("--set", "job.max_records_per_batch=1000")
        reference = (
            _undisturbed(folder / "undisturbed", job) if spark_reference else _by_plain_loop(job)
        )
        found = {topic: job.published(topic) for topic in IDENTITY}
    return Result(
        tuple(deaths), tuple(compare(topic, found[topic], reference[topic]) for topic in IDENTITY)
    )


def _kill(rng: random.Random, moment: Moment) -> Kill:
    longest = {"start": START_TAKES_S, "batch": _BATCH_TAKES_S, "append": 0.005}[moment]
    return Kill(moment, rng.randrange(1, 5), rng.uniform(0, longest))


def _pieces(lines: Sequence[bytes], count: int) -> list[Sequence[bytes]]:
    bounds = [len(lines) * i // count for i in range(count + 1)]
    return [lines[a:b] for a, b in pairwise(bounds)]


def _live_and_die(job: RealJob, piece: Sequence[bytes], kill: Kill) -> Death:
    """Half of the piece is there when the job starts, the rest comes once it works."""
    before, committed = _begun(job), _committed(job)
    job.publish(piece[: len(piece) // 2])
    job.start()
    if kill.moment == "start":
        job.publish(piece[len(piece) // 2 :])
    else:
        job.wait_until(lambda: _begun(job) > before)
        job.publish(piece[len(piece) // 2 :])
        job.aim()
        _wait_for_moment(job, kill, before)
    time.sleep(kill.delay_s)
    processes = job.kill()
    worked = (_begun(job), _committed(job)) != (before, committed)
    return Death(kill, processes, worked and _begun(job) > _committed(job))


def _wait_for_moment(job: RealJob, kill: Kill, before: int) -> None:
    """Later moments than this life has work for are brought forward to its end."""
    if kill.moment == "batch":
        job.wait_until(lambda: _begun(job) >= before + kill.batches or _idle(job))
        return
    size = _appended(job)
    job.wait_until(lambda: _appended(job) > size or _idle(job))


def newest_batch(checkpoint: Path) -> int:
    """Number of the newest micro-batch that Spark has planned; -1 before the first."""
    return _newest(checkpoint / "offsets")


def newest_commit(checkpoint: Path) -> int:
    """Number of the newest micro-batch that is done; -1 before the first."""
    return _newest(checkpoint / "commits")


def _begun(job: RealJob) -> int:
    return newest_batch(job.checkpoint)


def _committed(job: RealJob) -> int:
    return newest_commit(job.checkpoint)


def _newest(log: Path) -> int:
    return (
        max((int(entry.name) for entry in log.glob("*") if entry.name.isdigit()), default=-1)
        if log.is_dir()
        else -1
    )


def _appended(job: RealJob) -> int:
    """Bytes in all output topics."""
    return sum(
        segment.stat().st_size
        for topic in IDENTITY
        for segment in (job.folder / topic).glob("segment-*")
    )


def _idle(job: RealJob) -> bool:
    """Nothing left to do: every line is in a committed micro-batch."""
    begun = _begun(job)
    if _committed(job) < begun or begun < 0:
        return False
    # The log's lines: its version, metadata, and the offset of the one source.
    place = json.loads((job.checkpoint / "offsets" / str(begun)).read_text().splitlines()[-1])
    return (place["segment"], place["byte"]) == tuple(
        FileTopicReader(job.folder / "telemetry").end()
    )


def _by_plain_loop(job: RealJob) -> Topics:
    loop = PlainLoop(job.engine)
    records, _ = FileTopicReader(job.folder / "telemetry", job.telemetry_uri).read()
    rows = [
        row for record in records for row in loop.feed(record.position, record.value, record.size)
    ]
    return {topic: [row.value for row in rows if row.kind == topic] for topic in IDENTITY}


def _undisturbed(folder: Path, killed: RealJob) -> Topics:
    """What the job publishes of the same telemetry when it is not killed; rejected records name the
    topic of the other one.
    """
    shutil.copytree(killed.folder / "telemetry", folder / "telemetry")
    with RealJob(folder) as job:
        job.drain()
        renamed = job.telemetry_uri.encode(), killed.telemetry_uri.encode()
        return {
            topic: [line.replace(*renamed) for line in job.published(topic)] for topic in IDENTITY
        }


def _described(death: Death) -> str:
    where = (
        "in the middle of a micro-batch"
        if death.in_batch
        else "between two micro-batches or before the first"
    )
    return f"{death.kill.moment} + {death.kill.delay_s:.2f} s, {death.processes} processes, {where}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("tools.kills.kill_job", __doc__ or "", kills=20)
    given = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-job-") as folder:
        lines = list(open_recording(given.recording))
        result = run(
            Path(folder),
            lines,
            plan(given.kills, given.seed),
            say,
            spark_reference=True,
        )
    hits = sum(death.in_batch for death in result.deaths)
    return verdict(
        result.comparisons,
        f"{len(result.deaths)} kills, {hits} of them in the middle of a micro-batch, in "
        f"{time.monotonic() - began:.0f} s: what was published",
        "the undisturbed run",
    )


if __name__ == "__main__":
    sys.exit(main())
