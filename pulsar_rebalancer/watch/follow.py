"""The loop of a watch: answers commands, and prints what the rounds say, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from pulsar_rebalancer.cli.lazy import laboratory
from pulsar_rebalancer.cli.own_shedder import OwnShedder
from pulsar_rebalancer.watch.dry_runs import DryRuns
from pulsar_rebalancer.watch.folder import WatchFolder
from pulsar_rebalancer.watch.processes import WHAT, Processes
from pulsar_rebalancer.watch.screen import WatchScreen
from sinks.topics.access import Consumer, open_consumer, open_publisher
from sinks.topics.files.segments import delete_segments
from sinks.topics.settings import Topics
from sinks.wire.codec import decode_round
from strategies.cluster.model import Command, Round
from strategies.errors import WireError

_TURN_S = 0.5
#: Telemetry is kept for this time, in files of 64 MiB.
_KEEP_MS = 2 * 86_400_000
_GROUP = "rebalancer-watch"


class CommandsAnswerer(Protocol):
    """Takes the part of an executor."""

    def step(self) -> list[Command]:
        """Answers the commands that are there, and returns them. Raises SinkError."""

    def close(self) -> None:
        """Closes the topics."""


def follow(
    processes: Processes,
    answerer: CommandsAnswerer,
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
    ChildFailed, SinkError. `starting`: new lines of a job that starts; `shedders`: of Pulsar
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
        known |= {command.id: command for command in answerer.step()}
        waiting += _new_rounds(rounds)
        # A round's commands may be read after it.
        ready = [one for one in waiting if known.keys() >= set(one.commands)]
        screen.rounds(ready, known)
        if ready:
            delete_segments(telemetry, clock_ms() - _KEEP_MS, _KEEP_MS)
        waiting = [one for one in waiting if one not in ready][-1:]
        for one in ready:
            for name in one.commands:
                known.pop(name, None)


def _new_rounds(topic: Consumer) -> list[Round]:
    found = []
    while records := topic.poll(100, 0):
        for record in records:
            with suppress(WireError):
                found.append(decode_round(record.value))
        topic.commit(records[-1])
    return found


@contextmanager
def opened_rounds(folder: WatchFolder, topics: Topics) -> Iterator[Consumer]:
    """The rounds that no watch in this folder has printed."""
    with closing(open_consumer(topics.rounds, _GROUP, folder.positions)) as consumer:
        yield consumer


@contextmanager
def dry_runs(
    folder: WatchFolder, topics: Topics, clock_ms: Callable[[], int]
) -> Iterator[CommandsAnswerer]:
    """Answers the commands for a real cluster with dry runs."""
    answerer = DryRuns(
        open_consumer(topics.commands, _GROUP, folder.positions),
        open_publisher(topics.outcomes),
        open_publisher(topics.telemetry),
        clock_ms,
    )
    with closing(answerer):
        yield answerer


def modelling(
    topics: Topics, seed: int, clock_ms: Callable[[], int]
) -> AbstractContextManager[CommandsAnswerer]:
    """The modelled cluster of `--demo`. Raises ModuleNotFoundError at once where the laboratory is
    not installed.
    """
    modelled_cluster = laboratory("demo.installation").modelled_cluster
    return closing(modelled_cluster(dict(topics.named()), seed, clock_ms))
