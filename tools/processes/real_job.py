"""The real job in a folder of its own: `rebalancer run` as a process that can be watched, killed
with all it started, and begun again.
"""

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from pulsar_rebalancer.settings.merge_sources import load
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.record_decoding import WireLimits
from strategies.fold.engine import EngineSettings
from tools.servers.quick_java import JAVA_OPTIONS, short_java

PROJECT = Path(__file__).parents[2]
TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
#: So low that the small differences of a recording already make commands.
EAGER = (
    "round.interval_ms=20000",
    "round.cool_down_ms=60000",
    "shedding.threshold.threshold_percent=1",
    "shedding.threshold.history=0.5",
    "shedding.threshold.min_throughput_mib=0",
    "shedding.avg.low_threshold=2",
    "shedding.avg.high_threshold=5",
    "shedding.avg.hit_count_low=2",
    "shedding.avg.hit_count_high=1",
    "shedding.avg.min_msg_rate=5",
    "shedding.avg.min_throughput=1000",
)
#: Everything a run starts inherits this variable, so that nothing of it can hide, whatever session
#: or parent it has.
MARK = "TESTS_FAULTS_RUN"
_OFTEN_S, _SELDOM_S = 0.002, 0.5
_WIDE = WireLimits(max_record_bytes=2**30)


class JobEnded(AssertionError):
    """The job ended without a request, or did not end in time."""


@lru_cache
def recording(name: str) -> list[bytes]:
    """The lines of one of the recordings that belong to the tests."""
    return gzip.decompress(
        (PROJECT / "tests" / "data" / "recordings" / f"{name}.jsonl.gz").read_bytes()
    ).splitlines()


def eager(strategy: str) -> EngineSettings:
    """What every job here decides by."""
    return load(None, {}, (*EAGER, f"shedding.strategy={strategy}")).engine


class RealJob:
    """Topics, checkpoint and settings below one folder; at most one process at a time. Leaving the
    context kills what still runs.
    """

    def __init__(
        self,
        folder: Path,
        strategy: str = "threshold",
        max_records_per_batch: int = 5_000,
        environment: Mapping[str, str] = {},
        *,
        usual: bool = False,
    ) -> None:
        """`environment` is added to that of the process; `usual`: the strategy's own settings."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.engine = eager(strategy)
        self.checkpoint = folder / "checkpoint"
        self.telemetry_uri = file_topic_uri(folder / "telemetry")
        self.log = folder / "job.log"
        self.assignments = (
            *(() if usual else EAGER),
            f"shedding.strategy={strategy}",
            f"job.checkpoint={self.checkpoint}",
            f"job.max_records_per_batch={max_records_per_batch}",
            *(f"topics.{name}={file_topic_uri(folder / name)}" for name in TOPICS),
        )
        #: A module and its first arguments.
        self.program: Sequence[str] = ("pulsar_rebalancer.cli.main", "run")
        self._environment = {**environment_of_a_short_run(), **environment}
        self._mark = uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._aimed_at: set[int] = set()

    def __enter__(self) -> "RealJob":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def publish(self, values: Sequence[bytes]) -> None:
        with FileTopicWriter(self.folder / "telemetry") as writer:
            writer.append(values)

    def tear(self, value: bytes) -> None:
        """What a publisher leaves that is killed in the middle of an append: the first half of a
        line.
        """
        segment = max((self.folder / "telemetry").glob("segment-*.jsonl"))
        with segment.open("ab") as file:
            file.write(value[: len(value) // 2])

    def published(self, topic: str) -> list[bytes]:
        """All complete lines of a topic."""
        return [
            record.value for record in FileTopicReader(self.folder / topic, limits=_WIDE).read()[0]
        ]

    def start(self, *more: str) -> None:
        """`rebalancer run`; what it prints is added to `log`."""
        arguments = [
            argument for assignment in self.assignments for argument in ("--set", assignment)
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self.program, *arguments, *more],
                cwd=PROJECT,
                env=self._environment | {MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def drain(self, *more: str, seconds: float = 300.0) -> None:
        """Runs until all telemetry there is has been processed. Raises JobEnded."""
        self.start("--drain", *more)
        try:
            self.wait_until(
                lambda: self._process is not None and self._process.poll() == 0, seconds
            )
        finally:
            self.kill()

    def wait_until(self, true: Callable[[], bool], seconds: float = 120.0) -> None:
        """Looks every 2 ms, or less often where a look takes long, which leaves the job three
        quarters of a core.

        Raises JobEnded when the job ends with an error, or `seconds` have passed.
        """
        began = time.monotonic()
        deadline = began + seconds
        while not true():
            looked_s = time.monotonic() - began
            if self._process is None or self._process.poll() not in (None, 0):
                raise JobEnded(f"the job has ended; its last words: {self._last_words()}")
            if time.monotonic() > deadline:
                raise JobEnded(f"nothing for {seconds:g} s; its last words: {self._last_words()}")
            time.sleep(min(_SELDOM_S, max(_OFTEN_S, 3 * looked_s)))
            began = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether the last start has not ended yet."""
        return self._process is not None and self._process.poll() is None

    def wait_for_end(self, seconds: float = 60.0) -> int:
        """The exit code of a start that is about to end."""
        assert self._process is not None
        return self._process.wait(seconds)

    def processes(self) -> set[int]:
        """All that the run has started and that live."""
        return marked(self._mark)

    def aim(self) -> set[int]:
        """Finds what `kill` is to hit first, so that it loses no time when the moment has come."""
        self._aimed_at = marked(self._mark)
        return self._aimed_at

    def kill(self) -> int:
        """SIGKILL to everything the run has started, Java and its Python workers too; how many
        processes that were.
        """
        process, self._process = self._process, None
        found, self._aimed_at = self._aimed_at, set()
        killed = kill_marked(self._mark, found)
        if process is not None:
            process.wait()
        return len(killed)

    def _last_words(self) -> str:
        return (
            self.log.read_text(encoding="utf-8", errors="replace")[-800:]
            if self.log.exists()
            else "none"
        )


def environment_of_a_short_run() -> dict[str, str]:
    """Ours, without settings of the rebalancer and the workers' Python, with a Java for short runs,
    and patient on a busy machine.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("REBALANCER_", "PYSPARK_"))
    }
    return kept | {JAVA_OPTIONS: short_java(), "REBALANCER_JOB__START_TIMEOUT_MS": "3600000"}


def with_usual_java() -> dict[str, str]:
    """For measurements: variables that undo the Java for short runs, which production does not
    have.
    """
    return {JAVA_OPTIONS: os.environ.get(JAVA_OPTIONS, "")}


def kill_marked(mark: str, found: Collection[int] = ()) -> set[int]:
    """SIGKILL to those that were `found` already, then to all that carry the mark, until there is
    none; who they were.
    """
    killed: set[int] = set()
    while found or (found := marked(mark)):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= set(found)
        found = ()
    return killed


def marked(mark: str) -> set[int]:
    """Living processes whose environment carries the mark; those that have ended and wait for their
    parent have none.
    """
    wanted, found = f"{MARK}={mark}".encode(), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
    return found
