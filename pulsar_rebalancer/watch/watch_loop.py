"""The loop of a watch and its processes, which are started and stopped together: answers commands,
and prints where page and files are, then a line per change, until it is stopped.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

from pulsar_rebalancer.cli.child_process import STOP_SECONDS, ChildProcess, rebalancer_command
from pulsar_rebalancer.cli.intent_session import progress_of
from pulsar_rebalancer.cli.main import laboratory
from pulsar_rebalancer.cli.own_shedder_warning import OwnShedder
from pulsar_rebalancer.decisions.explain.explanation_lines import points
from pulsar_rebalancer.decisions.intents import what_of
from pulsar_rebalancer.watch.watch_folder import KEEP_MS, WatchFolder
from sinks.graceful_stop import wall_clock_ms
from sinks.metrics.settings import ListenAddress, listening_socket
from sinks.printable import put
from sinks.topics.files.segments import delete_segments
from sinks.topics.open_topics import Consumer, Skipped, open_consumer, open_publisher, readable
from sinks.topics.topic_settings import Topics
from sinks.wire.record_decoding import decode_command, decode_round
from sinks.wire.record_encoding import encode_outcome, encode_outcome_telemetry
from strategies.cluster.model import Command, Outcome, Round
from strategies.figures.texts_of_counts_names_and_ages import counted_with
from strategies.figures.usage_after_moves import expected_spread, reported_spread

#: Commands of a round that are printed.
_MOST_COMMANDS = 5


_LOOK_S = 0.1
#: An address that stands for all addresses of this machine → one that can be reached.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: Command → its name in errors. The page comes first: it shows what the others wait for.
WHAT = {"serve": "the live page", "collect": "the collector", "run": "the Spark job"}
T = TypeVar("T")
#: Consumer group of a watch.
GROUP = "rebalancer-watch"
_TURN_S = 0.5


class WatchScreen:
    """Prints to standard output. `clock`: of the lines."""

    def __init__(
        self, file: TextIO | None = None, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        self._file, self._clock = file or sys.stdout, clock
        self._said: dict[str, tuple[object, ...]] = {}
        self._intents: dict[str, dict[str, str]] = {}

    def begin(self, subjects: Sequence[str], folder: WatchFolder, page: str) -> None:
        """The first lines; `subjects`: one per cluster."""
        places = (
            f"settings   {folder.settings_file}",
            f"logs       {folder.log('*').parent}",
            f"page       {page}",
            "Spark takes about 20 seconds to start. Ctrl-C stops all processes.",
        )
        for text in (*(f"cluster    {subject}" for subject in subjects), *places):
            put(text, self._file)

    def line(self, text: str) -> None:
        """A line with the time of day."""
        put(f"{self._clock():%H:%M:%S}  {text}", self._file)

    def rounds(self, done: Sequence[Round], commands: Mapping[str, Command]) -> None:
        """A line for each round whose state differs from that of the round before, and the moves
        of a round that differ from the moves before; a line for each drain and roll whose state
        has changed. `commands`: by id.
        """
        for one in done:
            self._drains(one)
            code = "decided" if one.state is None else one.state.code
            moves = [commands[name] for name in one.commands if name in commands]
            said = (code, *((move.action, move.bundle, move.destination) for move in moves))
            if self._said.get(one.cluster) == said:
                continue
            self._said[one.cluster] = said
            for text in _round_lines(one, code, moves):
                self.line(text)

    def _drains(self, done: Round) -> None:
        """The drains and rolls of a round whose state is not that of the round before."""
        before = self._intents.get(done.cluster, {})
        self._intents[done.cluster] = {one.id: one.state for one in done.intents}
        for one in done.intents:
            if before.get(one.id) != one.state:
                self.line(f"{done.cluster}, {what_of(one)}: {progress_of(one)}")


def _round_lines(one: Round, code: str, moves: Sequence[Command]) -> Iterator[str]:
    spread = f"spread {points(reported_spread(one))} points"
    after = ""
    if moves or one.counted:
        after = f", {points(expected_spread(one))} after its moves{counted_with(one.counted)}"
    text = code if one.state is None else f"{code}: {one.state.text}"
    yield f"{one.cluster}, round {one.round}: {spread}{after}; {text}"
    for move in moves[:_MOST_COMMANDS]:
        where = "" if move.destination is None else f" → {move.destination}"
        yield f"  {move.action} {move.bundle}: {move.source}{where}"
    if len(moves) > _MOST_COMMANDS:
        yield f"  and {len(moves) - _MOST_COMMANDS} more"


@dataclass
class Processes:
    """The running processes."""

    children: list[ChildProcess]

    def check(self) -> None:
        """Raises ChildFailed when one of them has ended."""
        for child in self.children:
            child.check()

    def wait_for(self, address: ListenAddress, wait: Callable[[float], bool]) -> None:
        """Returns when a process listens at the address, or `wait` says that the program is to
        end. Raises ChildFailed.
        """
        host = _LOOPBACK.get(address.host, address.host)
        while not wait(_LOOK_S):
            self.check()
            with suppress(OSError), socket.create_connection((host, address.port), timeout=1):
                return

    def stop(self) -> None:
        """Asks all of them to end, then waits for each: they finish their work side by side."""
        for child in self.children:
            child.terminate()
        until = time.monotonic() + STOP_SECONDS
        for child in self.children:
            child.stop(max(0.0, until - time.monotonic()))


@contextmanager
def started(folder: WatchFolder, commands: Sequence[str]) -> Iterator[Processes]:
    """Starts commands of `WHAT` with the folder's settings file; all of them end with the
    context.
    """
    processes = Processes([])
    try:
        for name in commands:
            command = rebalancer_command(name, folder.settings_file)
            processes.children.append(
                ChildProcess(WHAT[name], command, folder.log(name)).__enter__()
            )
        yield processes
    finally:
        processes.stop()


def with_port(address: ListenAddress) -> ListenAddress:
    """The address with a free port instead of port 0, so that the settings file names it. Raises
    SinkError if the address cannot be used: another page may answer there, for example that of
    another watch.
    """
    example = ", for example --listen 127.0.0.1:8086, or --listen 127.0.0.1:0 for any free port"
    with listening_socket(address, "serve.listen", example) as probe:
        return ListenAddress(address.host, probe.getsockname()[1])


def follow(
    processes: Processes,
    answer: Callable[[], list[Command]],
    rounds: Consumer,
    screen: WatchScreen,
    stop: threading.Event,
    *,
    telemetry: Path,
    clock_ms: Callable[[], int],
    starting: Callable[[], Sequence[str]] = lambda: (),
    shedders: Sequence[OwnShedder] = (),
) -> None:
    """Turns until `stop` is set, and deletes old segments of the file topic `telemetry`. Raises
    ChildFailed, SinkError. `answer`: does an executor's part, and returns the commands that it has
    answered; `starting`: new lines of a job that starts; `shedders`: of Pulsar
    itself; the screen names those that are on.
    """
    known: dict[str, Command] = {}
    waiting: list[Round] = []
    while not stop.wait(_TURN_S):
        for said in starting():
            screen.line(f"{WHAT['run']}: {said}")
        processes.check()
        for shedder in shedders:
            for line in shedder.news():
                screen.line(str(line))
        known |= {command.id: command for command in answer()}
        for found in new_records(rounds, decode_round):
            waiting += found
        # A round's commands may be read after it.
        ready = [one for one in waiting if known.keys() >= set(one.commands)]
        screen.rounds(ready, known)
        if ready:
            delete_segments(telemetry, clock_ms() - KEEP_MS, KEEP_MS)
        waiting = [one for one in waiting if one not in ready][-1:]
        for one in ready:
            for name in one.commands:
                known.pop(name, None)


def modelled_cluster(topics: Topics) -> Any:
    """The modelled cluster of `--demo`, whose executor answers the commands. Raises
    ModuleNotFoundError where the laboratory is not installed.
    """
    model = laboratory("demo.run").modelled_cluster
    return model(dict(topics.named()), 1, wall_clock_ms)


class DryRuns:
    """The executor of a watch: answers every command with a dry run, so that the next round decides
    without it. It carries nothing out, and asks the cluster nothing about a command. Raises
    SinkError.
    """

    def __init__(self, topics: Topics, positions: Path, clock_ms: Callable[[], int]) -> None:
        """`positions`: folder of the position on the commands; `clock_ms`: ms since the epoch."""
        self._commands = open_consumer(topics.commands, GROUP, positions)
        self._outcomes = open_publisher(topics.outcomes)
        self._telemetry = open_publisher(topics.telemetry)
        self._clock_ms = clock_ms

    def step(self) -> list[Command]:
        """Answers the commands that are there, and returns them."""
        answered = list[Command]()
        for commands in new_records(self._commands, decode_command):
            for command in commands:
                self._answer(command)
            self._outcomes.flush()
            self._telemetry.flush()
            answered += commands
        return answered

    def close(self) -> None:
        """Closes the topics."""
        for topic in (self._commands, self._outcomes, self._telemetry):
            topic.close()

    def _answer(self, command: Command) -> None:
        """The owner is not looked up."""
        where = "" if command.destination is None else f" to {command.destination}"
        reason = (
            f"dry-run: would {command.action} {command.bundle} from {command.source}{where}; a "
            "watch changes nothing"
        )
        outcome = Outcome(
            command.id,
            command.cluster,
            command.bundle,
            "dry-run",
            reason,
            None,
            None,
            0,
            self._clock_ms(),
        )
        self._outcomes.publish(command.cluster, encode_outcome(outcome))
        self._telemetry.publish(command.cluster, encode_outcome_telemetry(outcome))


def new_records(topic: Consumer, decode: Callable[[bytes], T]) -> Iterator[list[T]]:
    """The records that are there, in parts, each of which is committed when the next one is asked
    for. The job wrote them, so only a torn line is none. Raises SinkError.
    """
    while records := topic.poll(100, 0):
        yield [record for _, record in readable(records, decode, Skipped("", ""))]
        topic.commit(records[-1])
