"""The loop of a watch: answers commands, and prints what the rounds say, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli.lazy import laboratory
from pulsar_rebalancer.cli.own_shedder import OwnShedder
from pulsar_rebalancer.watch.dry_runs import new_records
from pulsar_rebalancer.watch.processes import WHAT, Processes
from pulsar_rebalancer.watch.screen import WatchScreen
from sinks.topics.access import Consumer
from sinks.topics.files.segments import delete_segments
from sinks.topics.settings import Topics
from sinks.wall_clock import wall_clock_ms
from sinks.wire.codec import decode_round
from strategies.cluster.model import Command, Round

_TURN_S = 0.5
#: Telemetry is kept for this time, in files of 64 MiB.
_KEEP_MS = 2 * 86_400_000


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
            delete_segments(telemetry, clock_ms() - _KEEP_MS, _KEEP_MS)
        waiting = [one for one in waiting if one not in ready][-1:]
        for one in ready:
            for name in one.commands:
                known.pop(name, None)


def modelled_cluster(topics: Topics) -> Any:
    """The modelled cluster of `--demo`, whose executor answers the commands. Raises
    ModuleNotFoundError where the laboratory is not installed.
    """
    model = laboratory("demo.watched_cluster").modelled_cluster
    return model(dict(topics.named()), 1, wall_clock_ms)
