"""The closed loop as processes, `rebalancer collect`, `run`, `execute --apply` and `serve`, each of
which can be killed and started again.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import Reader, open_reader
from sinks.topics.topic_settings import TopicAccess
from sinks.wire.record_decoding import decode_answer, decode_command, decode_round
from strategies.cluster.model import Command, Outcome, Round
from strategies.executor.objections_to_approvals import ApprovalOutcome
from tests.control_topic import TOPICS, Control
from tests.topic_uris import topic_of
from tools.processes.real_job import MARK, environment_of_a_short_run, kill_marked
from tools.servers.logged_process import dying_with_us
from tools.servers.pulsar_cluster import PulsarCluster
from tools.waiting import eventually

Program = Literal["collect", "run", "execute", "serve"]
PROGRAMS: Mapping[Program, tuple[str, ...]] = {
    "collect": ("collect",),
    "run": ("run",),
    "execute": ("execute", "--apply"),
    "serve": ("serve",),
}
#: Generous: the machine may be busy with other things.
_LONG_S, _STOP_S = 300.0, 120.0
#: Of topics that lie on the balanced cluster.
NAMESPACE = "rebalancer/loop"
PROJECT = Path(__file__).parents[2]
_NOTE = b'{"v":1,"kind":"note","cluster":"c","ts":1,"text":"the loop begins"}'
#: What the loop is to reach: the busiest broker's throughput by the idlest one's.
GOAL = 1.5
#: Traffic is judged, not usage: the brokers share a machine's two cores with everything else, and
#: what the CPU of that machine does says nothing about a broker.
SETTINGS: Mapping[str, object] = {
    # The job starts before any broker reports; `auto` would wait for one.
    "pulsar.version": "4.2",
    # After a move, brokers need 5 to 10 s until their figures are those of the new owners; the
    # next round is to know these, or it moves back what has just come.
    "round.interval_ms": 16_000,
    "round.lateness_ms": 4_000,
    "round.stale_after_ms": 20_000,
    "round.cool_down_ms": 600_000,
    "weights.cpu": 0,
    "shedding.strategy": "uniform",
    "shedding.uniform.rate_difference_percent": 0,
    # Below the goal: brokers measure traffic of their own too, which our clients do not count.
    "shedding.uniform.throughput_ratio": 1.35,
    "shedding.uniform.max_unload": 0.5,
    "shedding.uniform.min_throughput": 1000,
    "filters.distribute_evenly": False,
    "collector.pass_interval_ms": 2_000,
    "executor.arrival_timeout_ms": 10_000,
    "executor.settle_ms": 8_000,
}


class Loop:
    """Checkpoint, journal and logs below one folder, and topics that `uris` does not name. Leaving
    `closed_loop` kills what still runs.
    """

    def __init__(
        self, folder: Path, pulsar: PulsarSettings, uris: Mapping[str, str] | None, **more: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._mark = folder, uuid4().hex
        self._access = TopicAccess(pulsar=pulsar)
        self.topics = Control(folder, uris, self._access)
        self._followed, self._counts = dict[str, Reader](), Counter[str]()
        given = {
            "pulsar.cluster": pulsar.cluster,
            "pulsar.admin_urls": pulsar.admin_urls,
            "pulsar.token_file": pulsar.token_file,
            "executor.state": folder / "state",
            "job.checkpoint": folder / "checkpoint",
            **{f"topics.{name}": self.topics.uri(name) for name in TOPICS},
            **SETTINGS,
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        self.words = [
            word for path, value in given.items() for word in ("--set", f"{path}={_written(value)}")
        ]
        self._processes: dict[Program, subprocess.Popen[bytes]] = {}

    def start(self, *programs: Program) -> None:
        """What they print is added to their logs."""
        for program in programs:
            command = [
                *dying_with_us(),
                sys.executable,
                "-m",
                "pulsar_rebalancer.cli.main",
                *PROGRAMS[program],
                *self.words,
            ]
            with self.log(program).open("ab") as log:
                self._processes[program] = subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    env=environment_of_a_short_run() | {MARK: f"{self._mark}-{program}"},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def begin(self, *others: Program) -> None:
        """Starts the others (all, if none is named) once the job has worked off a first record: it
        is not to begin with a backlog.
        """
        self.wait_until(lambda: b" batch " in self.log("run").read_bytes(), "the job works")
        self.start(*(others or ("collect", "execute")))

    def kill(self, program: Program) -> None:
        """SIGKILL to everything it has started."""
        process = self._processes.pop(program, None)
        if process is not None:
            process.kill()
            kill_marked(f"{self._mark}-{program}")
            process.wait()

    def stop(self, *programs: Program) -> None:
        """SIGTERM; each finishes what it is at."""
        for program in programs:
            self._processes[program].terminate()
        for program in programs:
            assert self._processes.pop(program).wait(_STOP_S) == 0, f"see {self.log(program)}"

    def log(self, program: Program) -> Path:
        return self.folder / f"{program}.log"

    def wait_until(self, true: Callable[[], bool], what: str, every_s: float | None = None) -> None:
        """It is an error when one of the processes ends, or a long time has passed. `every_s`: see
        `eventually`.
        """

        def looked() -> bool:
            ended = {program: process.poll() for program, process in self._processes.items()}
            assert not any(code is not None for code in ended.values()), (
                f"ended: {ended}, waiting for {what}; {self._last_words()}"
            )
            return true()

        def kept() -> str:
            """The cluster of the topics is gone when a failed test is examined."""
            for topic in TOPICS:
                (self.folder / f"{topic}.jsonl").write_bytes(b"\n".join(self.read(topic)))
            return f"not within {_LONG_S:g} s: {what}; {self._last_words()}"

        eventually(looked, _LONG_S, kept, every_s)

    def _last_words(self) -> str:
        logs = (self.log(program) for program in PROGRAMS)
        tails = (f"{log}:\n{log.read_text('utf-8')[-1000:]}" for log in logs if log.exists())
        return "\n".join(("the logs end with", *tails))

    def commands(self) -> list[Command]:
        return [decode_command(value) for value in self.read("commands")]

    def rounds(self) -> list[Round]:
        return [decode_round(value) for value in self.read("rounds")]

    def outcomes(self) -> list[Outcome]:
        """Of commands; the topic also has the answers to approvals."""
        return [one for one in self.answers() if isinstance(one, Outcome)]

    def answers(self) -> list[Outcome | ApprovalOutcome]:
        """All records of the outcomes topic."""
        return [decode_answer(value) for value in self.read("outcomes")]

    def count(self, topic: str) -> int:
        """How many records have come so far; what was read before is not read again, for that would
        be traffic.
        """
        if topic not in self._followed:
            self._followed[topic] = open_reader(
                topic_of(self.topics.uri(topic)), self._access, follow=True
            )
        while records := self._followed[topic].read():
            self._counts[topic] += len(records)
        return self._counts[topic]

    def close(self) -> None:
        """Kills what still runs."""
        for program in PROGRAMS:
            self.kill(program)
        for reader in self._followed.values():
            reader.close()

    def read(self, topic: str) -> list[bytes]:
        """All complete records of a topic."""
        return self.topics.read(topic)


@contextmanager
def closed_loop(
    folder: Path, pulsar: PulsarSettings, uris: Mapping[str, str] | None = None, **more: object
) -> Iterator[Loop]:
    """A loop whose job starts, which takes a while; what it is to work on can be made meanwhile,
    and then the others `begin`.
    """
    loop = Loop(folder, pulsar, uris, **more)
    loop.topics.write("telemetry", [_NOTE])
    try:
        loop.start("run")
        yield loop
    finally:
        loop.close()


@contextmanager
def on_pulsar(
    folder: Path, cluster: PulsarCluster, pulsar: PulsarSettings, **more: object
) -> Iterator[Loop]:
    """A closed loop with topics on the cluster that it balances, in a namespace that it leaves
    alone.
    """
    uris = {name: cluster.topic(f"{NAMESPACE}/{name}") for name in TOPICS}
    # These topics are traffic, too, which stays where it is.
    given = {
        "limits__excluded_namespaces": NAMESPACE,
        "shedding__uniform__throughput_ratio": 1.3,
        "collector__pass_interval_ms": 3_000,
        **more,
    }
    with closed_loop(folder, pulsar, uris, **given) as loop:
        yield loop


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
