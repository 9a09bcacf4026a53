"""The same with all topics on Kafka: the job is killed again and again, and once the broker, while
a recording is published.

    python -m tools.kills.kill_kafka_job --kills 50 --seed 7 RECORDING

The recording is published at 20 times its own speed, in a thread of its own that nothing stops but
the last kill; when it has come to its end it begins again, moved on in time. Each life of the job
ends by SIGKILL of the driver, Java and the Python workers, a drawn time after the start or after it
has begun a micro-batch. In the middle life the broker is killed as well and started again. What
is on the topics in the end, each record counted once, must be what the plain loop makes of what
was published. Exit code 0: nothing was lost, nothing differs; 1: something does.
"""

import json
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sinks.recordings.json_lines import open_recording
from sinks.topics.topic_settings import parse_topic
from sinks.wire.record_decoding import cluster_of
from tests.replayed import replayed
from tools.kills.compared_topics import Comparison, compare
from tools.kills.kill_job import newest_batch, newest_commit
from tools.kills.kill_options import BATCHES_TAKE_S, START_TAKES_S, options, say, scratch, verdict
from tools.processes.real_job import TOPICS, RealJob
from tools.servers.kafka_broker import KafkaBroker, kafka_broker
from tools.servers.kafka_topics import values

Say = Callable[[str], None]
SPEED = 20.0
#: Small, so that a life has several micro-batches; what is left at the end goes in larger ones.
_RECORDS_PER_BATCH = 20
_PAUSE_MS = 10_000
_TS = re.compile(rb'("ts":)(\d+)')


@dataclass(frozen=True, slots=True)
class Result:
    """`published`: records of telemetry; `in_batch`: how many kills hit a micro-batch that was
    begun and not committed.
    """

    published: int
    in_batch: int
    comparisons: tuple[Comparison, ...]

    @property
    def faults(self) -> list[str]:
        return [fault for one in self.comparisons for fault in one.faults]


class Player:
    """Publishes a recording at a multiple of its speed while the block lasts; `sent` is what was
    published, in order.
    """

    def __init__(self, uri: str, lines: Sequence[bytes], speed: float) -> None:
        self.sent: list[bytes] = []
        self._topic, self._lines, self._speed = parse_topic(uri), lines, speed
        self._enough = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="player")

    def __enter__(self) -> "Player":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self._topic.servers,
            acks="all",
            enable_idempotence=True,
            max_block_ms=120_000,
        )
        began, confirmed = time.monotonic(), []
        try:
            for after_ms, line in endless(self._lines):
                due = began + after_ms / 1000 / self._speed
                if self._enough.wait(max(0.0, due - time.monotonic())):
                    break
                confirmed.append(
                    producer.send(self._topic.name, line, key=cluster_of(line).encode())
                )
                self.sent.append(line)
            producer.flush()
            for one in confirmed:
                one.get(0)
        except Exception as error:
            self._error = error
        finally:
            producer.close()


def endless(lines: Sequence[bytes]) -> Iterator[tuple[float, bytes]]:
    """The lines again and again, each time moved on in time; with each, how many ms after the first
    it is due.
    """
    times = [int(json.loads(line)["ts"]) for line in lines]
    first, lasts = times[0], max(times) - times[0] + _PAUSE_MS
    moved = 0
    while True:
        for ts, line in zip(times, lines, strict=True):
            # Nothing but the envelope's own time has this name in a recording.
            later = partial(_later, moved)
            yield moved + ts - first, _TS.sub(later, line)
        moved += lasts


def _later(moved: int, found: re.Match[bytes]) -> bytes:
    return found[1] + str(int(found[2]) + moved).encode()


def run(
    broker: KafkaBroker,
    folder: Path,
    lines: Sequence[bytes],
    *,
    kills: int,
    seed: int,
    say: Say = lambda _: None,
) -> Result:
    """As many lives as there are kills while the recording is published, a last life that finishes,
    and the comparison.
    """
    rng = random.Random(seed)
    uris = {name: broker.topic(f"kill-{name}") for name in TOPICS}
    assignments = [word for name, uri in uris.items() for word in ("--set", f"topics.{name}={uri}")]
    hits = 0
    with RealJob(folder, max_records_per_batch=_RECORDS_PER_BATCH) as job:
        with Player(uris["telemetry"], lines, SPEED) as player:
            for number in range(kills):
                before, done = newest_batch(job.checkpoint), newest_commit(job.checkpoint)
                job.start(*assignments)
                in_batch = number % 3 != 2
                if in_batch:
                    job.wait_until(lambda last=before: newest_batch(job.checkpoint) > last, 600)  # type: ignore[misc]
                time.sleep(rng.uniform(0, BATCHES_TAKE_S if in_batch else START_TAKES_S))
                if number == kills // 2:
                    broker.server.kill()
                    broker.server.start()
                processes = job.kill()
                begun, committed = newest_batch(job.checkpoint), newest_commit(job.checkpoint)
                hit = (begun, committed) != (before, done) and begun > committed
                hits += hit
                where = "in a micro-batch" if hit else "between micro-batches or before the first"
                say(
                    f"kill {number + 1}: {processes} processes, {where}, {committed - done} "
                    f"done, {len(player.sent)} records published"
                )
        job.drain("--set", "job.max_records_per_batch=1000", *assignments, seconds=900)
        reference = replayed(player.sent, job.engine)
    compared = [
        compare(kind, values(uris[kind]), reference[kind]) for kind in ("commands", "rounds")
    ]
    return Result(len(player.sent), hits, tuple(compared))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options("tools.kills.kill_kafka_job", __doc__ or "", kills=50)
    given = parser.parse_args(arguments)
    began, lines = time.monotonic(), list(open_recording(given.recording))
    with scratch("kill-kafka", "broker") as (own, job), kafka_broker(own) as broker:
        found = run(broker, job, lines, kills=given.kills, seed=given.seed, say=say)
    return verdict(
        found.comparisons,
        f"{given.kills} kills, {found.in_batch} of them in a micro-batch, and a restart of "
        f"the broker in {time.monotonic() - began:.0f} s, "
        f"while {found.published} records were published at {SPEED:g} times their speed: the "
        "outcome",
        "the plain replay",
    )


if __name__ == "__main__":
    sys.exit(main())
